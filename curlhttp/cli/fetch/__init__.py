"""`curlhttp fetch`: a list of requests in, a record of each out, and nothing twice.

lines reads the list, record is what came of one, formats opens the output, whose kinds keep
records, recorded knows what is kept already, run has it all happen, tally counts and progress
shows.
"""
