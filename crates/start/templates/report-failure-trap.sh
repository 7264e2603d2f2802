{= function|at(0) =}
stage="preparing the job"
trap 'report_failure "$?" "$stage"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
