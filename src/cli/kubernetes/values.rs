//! Parsers for the values of flags in the syntax of Kubernetes.

use std::time::Duration;

use butler_cluster::object_name;

/// Parses a label: `KEY=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "must be KEY=VALUE".to_owned())
}

/// Parses a network, such as `10.0.0.0/8`.
pub(super) fn network(text: &str) -> Result<String, String> {
    let wrong = || "must be a network such as 10.0.0.0/8".to_owned();
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let is_length = length.parse::<u8>().is_ok_and(|length| length <= longest);
    if is_length { Ok(text.to_owned()) } else { Err(wrong()) }
}

/// Parses `NAMESPACE/JOB`.
pub(super) fn job_reference(text: &str) -> Result<(String, String), String> {
    let (namespace, job) =
        text.split_once('/').ok_or_else(|| "must be NAMESPACE/JOB".to_owned())?;
    Ok((object_name(namespace)?, object_name(job)?))
}

/// Parses a duration of whole seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let time = crate::cli::generate::values::timeout(text)?;
    if time.subsec_nanos() == 0 { Ok(time) } else { Err("must be whole seconds".to_owned()) }
}
