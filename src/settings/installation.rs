//! The settings of an installation of a server in a cluster.

use super::reader::Reader;
use super::setting::EGRESS_PORT;
use super::{Arguments, Environment, SettingsError};

/// The ports that a server may connect to: of repositories over HTTPS and SSH, and of API servers.
const DEFAULT_PORTS: [u16; 3] = [443, 22, 6443];

/// The ports that the network policy of a server allows it to connect to, each once.
///
/// # Errors
/// If one of them is not a port.
pub fn egress_ports(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<Vec<u16>, SettingsError> {
    let mut ports = Vec::new();
    for port in (Reader { arguments, environment }).values(&EGRESS_PORT, port)? {
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Ok(if ports.is_empty() { DEFAULT_PORTS.into() } else { ports })
}

fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| format!("`{text}` is not a port, which is a number from 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_flags_or_else_of_the_variable_or_else_the_usual_ones() {
        let ports = |flags: &[&str], variable: Option<&str>| {
            let mut arguments = Arguments::default();
            for flag in flags {
                arguments.add(&EGRESS_PORT, *flag);
            }
            let variables = variable.map(|value| ("BUTLER_EGRESS_PORT".into(), value.into()));
            let variables = variables.into_iter().collect();
            let environment = Environment::new(variables, std::path::PathBuf::new());
            egress_ports(&arguments, &environment).map_err(|error| error.to_string())
        };
        assert_eq!(ports(&[], None), Ok(vec![443, 22, 6443]));
        assert_eq!(ports(&[], Some("3000, 443,3000")), Ok(vec![3000, 443]));
        assert_eq!(ports(&["8443", "443"], Some("3000")), Ok(vec![8443, 443]));
        for wrong in ["0", "65536", "-1", "https", "443:444"] {
            let error = ports(&[wrong], None).unwrap_err();
            assert!(error.contains("--egress-port") && error.contains(wrong), "{error}");
        }
    }
}
