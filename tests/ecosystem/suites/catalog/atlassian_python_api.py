"""atlassian-python-api: Jira, Confluence and Bitbucket through a Session."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(sdist="atlassian-python-api==5.0.5", requires=("lxml",))
