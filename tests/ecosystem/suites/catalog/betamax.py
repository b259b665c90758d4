"""betamax: an adapter that records responses and plays them back."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(sdist="betamax==0.9.0", requires=("pyyaml",), asks="httpbin.org", is_in_ci=True)
