//! Reads `SHA256SUMS` files: lines of 64 hexadecimal digits, two spaces and a file name. `sha256sum --binary` writes `*` in
//! place of the second space.
//!
//! Parsing is strict, because the files are signed: a malformed line means that the file is not a
//! checksum file.

use crate::tool::digest::Sha256Sum;

/// The checksum file is malformed.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChecksumsError {
    /// It is not UTF-8.
    #[error("the checksum file is not UTF-8")]
    NotText,
    /// It is empty.
    #[error("the checksum file is empty")]
    Empty,
    /// A line has another format.
    #[error("line {line} of the checksum file is not `<sha256>  <file>`, as `sha256sum` writes it")]
    Line {
        /// The line's number, from 1.
        line: usize,
    },
    /// A file has two sums.
    #[error("the checksum file names `{name}` twice")]
    Twice {
        /// The file's name.
        name: String,
    },
}

/// The sums of a release's files.
#[derive(Debug)]
pub(in crate::tool) struct Checksums(Vec<(String, Sha256Sum)>);

impl Checksums {
    pub(in crate::tool) fn parse(bytes: &[u8]) -> Result<Self, ChecksumsError> {
        let text = std::str::from_utf8(bytes).map_err(|_| ChecksumsError::NotText)?;
        let mut sums: Vec<(String, Sha256Sum)> = Vec::new();
        for (index, line) in text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate() {
            let parts = line.split_once("  ").or_else(|| line.split_once(" *"));
            let (sum, name) = parts
                .and_then(|(sum, name)| Some((sum.parse().ok()?, name)))
                .filter(|(_, name)| is_file_name(name))
                .ok_or(if text.is_empty() {
                    ChecksumsError::Empty
                } else {
                    ChecksumsError::Line { line: index + 1 }
                })?;
            if sums.iter().any(|(known, _)| known == name) {
                return Err(ChecksumsError::Twice { name: name.to_owned() });
            }
            sums.push((name.to_owned(), sum));
        }
        Ok(Self(sums))
    }

    /// The sum of the file called `name`.
    pub(in crate::tool) fn of(&self, name: &str) -> Option<Sha256Sum> {
        self.0.iter().find_map(|(known, sum)| (known == name).then_some(*sum))
    }
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '/' && c != '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "c0ed7bc32ee52ae255af9982c8c88a7a4c610485cf1d55feeb037eab75fa082c";

    #[test]
    fn sums_of_real_releases_are_read() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors");
        for (file, archive, sum) in [
            ("hashicorp/terraform_1.5.7_SHA256SUMS", "terraform_1.5.7_linux_amd64.zip", SUM),
            (
                "hashicorp/terraform_1.9.8_SHA256SUMS",
                "terraform_1.9.8_linux_amd64.zip",
                "186e0145f5e5f2eb97cbd785bc78f21bae4ef15119349f6ad4fa535b83b10df8",
            ),
            (
                "hashicorp/terraform_1.11.4_SHA256SUMS",
                "terraform_1.11.4_linux_amd64.zip",
                "1ce994251c00281d6845f0f268637ba50c0005657eb3cf096b92f753b42ef4dc",
            ),
        ] {
            let bytes = std::fs::read(format!("{data}/{file}")).unwrap();
            let sums = Checksums::parse(&bytes).unwrap();
            assert_eq!(sums.of(archive).unwrap().to_string(), sum);
            assert_eq!(sums.of("terraform_0.0.1_linux_amd64.zip"), None);
        }
        for file in ["opentofu/tofu_1.6.0_SHA256SUMS", "opentofu/tofu_1.8.5_SHA256SUMS"] {
            Checksums::parse(&std::fs::read(format!("{data}/{file}")).unwrap()).unwrap();
        }
    }

    #[test]
    fn checksum_line_of_binary_mode_is_read() {
        let binary = Checksums::parse(format!("{SUM} *a.zip\n{SUM}  b.zip\n").as_bytes()).unwrap();
        assert_eq!(binary.of("a.zip"), SUM.parse().ok());
    }

    #[test]
    fn malformed_checksum_line_is_refused() {
        for (text, line) in [
            (format!("{SUM} a.zip\n"), 1),
            (format!("{SUM} **a.zip/\n"), 1),
            (format!("SHA256 (a.zip) = {SUM}\n"), 1),
            (format!("{SUM}  \n"), 1),
            (format!("{SUM}   a.zip\n"), 1),
            (format!("{SUM}  ../a.zip\n"), 1),
            (format!("{SUM}  a.zip\r\n"), 1),
            (format!("{SUM}  a.zip\n\n"), 2),
            (format!("{SUM}  a.zip\n{}  b.zip\n", &SUM[2..]), 2),
            ("<html>\n".to_owned(), 1),
        ] {
            let error = Checksums::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error, ChecksumsError::Line { line }, "{text}");
        }
        assert_eq!(Checksums::parse(b"").unwrap_err(), ChecksumsError::Empty);
        assert_eq!(Checksums::parse(b"\xff").unwrap_err(), ChecksumsError::NotText);
        let twice = format!("{SUM}  a.zip\n{SUM}  a.zip\n");
        assert!(matches!(Checksums::parse(twice.as_bytes()), Err(ChecksumsError::Twice { .. })));
    }
}
