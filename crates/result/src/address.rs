//! The parts of a resource's address: its module and its type.

/// The path of the module, empty for the root module, and the type of the resource. `address` is as Terraform
/// prints it, such as `module.network["a.b"].aws_vpc.main`.
pub(super) fn module_and_type(address: &str) -> (&str, &str) {
    let mut module = 0;
    let mut begins = segments(address);
    while let Some(at) = begins.next() {
        match name(address, at) {
            // The segment behind it is the module's name, with its key.
            "module" => {
                let Some(end) = begins.next().map(|name| segment_end(address, name)) else { break };
                module = end;
            }
            "data" | "ephemeral" => {}
            kind => return (&address[..module], kind),
        }
    }
    (&address[..module], "")
}

/// Where the segments of an address begin. A dot in a key does not end a segment.
fn segments(address: &str) -> impl Iterator<Item = usize> + '_ {
    let mut next = (!address.is_empty()).then_some(0);
    std::iter::from_fn(move || {
        let at = next?;
        let end = segment_end(address, at);
        next = (end < address.len()).then_some(end + 1);
        Some(at)
    })
}

/// The dot behind the segment that begins at `at`, or the end.
fn segment_end(address: &str, at: usize) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (offset, byte) in address.as_bytes()[at..].iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'.' if !is_quoted => return at + offset,
            _ => {}
        }
    }
    address.len()
}

/// The segment that begins at `at`, without its key.
fn name(address: &str, at: usize) -> &str {
    let segment = &address[at..segment_end(address, at)];
    segment.split('[').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_module_and_a_type() {
        for (address, module, kind) in [
            ("aws_vpc.main", "", "aws_vpc"),
            ("aws_vpc.main[0]", "", "aws_vpc"),
            ("data.aws_ami.linux", "", "aws_ami"),
            ("module.network.aws_vpc.main", "module.network", "aws_vpc"),
            (
                r#"module.network["a.b"].module.x[0].data.aws_ami.y["c.\"d.e"]"#,
                r#"module.network["a.b"].module.x[0]"#,
                "aws_ami",
            ),
            ("module.only", "module.only", ""),
            ("module", "", ""),
            ("", "", ""),
            ("aws_vpc", "", "aws_vpc"),
            (r#"aws_vpc.main["no end."#, "", "aws_vpc"),
        ] {
            assert_eq!(module_and_type(address), (module, kind), "{address}");
        }
    }
}
