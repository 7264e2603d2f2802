//! Names in a registry file.

/// The longest id or name of a stage, as labels of Kubernetes.
pub(super) const LONGEST_NAME: usize = 63;

/// Whether `text` can be an id or the name of a stage: a DNS label that begins with a letter.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LONGEST_NAME
        && text.bytes().all(is_plain)
        && text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !text.ends_with('-')
}
