"""requests-toolbelt: adapters, multipart encoders and dumps, tested on recorded responses."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(sdist="requests-toolbelt==1.0.0", requires=("betamax==0.9.0", "pyopenssl", "trustme"))
