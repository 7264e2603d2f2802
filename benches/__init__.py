"""The benchmarks of the runner: `python3 -m benches --help`, or `make bench`.

The yardstick is the plain shell script that a user would write instead. Script and runner take
turns, so that a busy machine disturbs both alike, and what counts is the ratio of each pair. The
standard library is all that it needs; what is measured against is on PATH: terraform, git, curl,
sha256sum, unzip and gpg.
"""
