//! Checks of texts in the syntax of Kubernetes.

/// The name of an object (RFC 1123), or what is wrong with it.
///
/// # Errors
/// If the cluster would refuse it.
pub fn object_name(text: &str) -> Result<String, String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    let ends_well = ends.iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()));
    if text.len() <= 253 && text.bytes().all(is_plain) && ends_well {
        return Ok(text.to_owned());
    }
    Err("must consist of lower-case letters, digits, `-` and `.`".to_owned())
}

/// A quantity, such as `500m` or `2Gi`, or what is wrong with it.
///
/// # Errors
/// If the cluster would refuse it.
pub fn quantity(text: &str) -> Result<String, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let units = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let is_positive = number.parse::<f64>().is_ok_and(|number| number > 0.0);
    if is_positive && !number.starts_with('+') && units.contains(&unit) {
        return Ok(text.to_owned());
    }
    Err("must be an amount such as 500m or 2Gi".to_owned())
}
