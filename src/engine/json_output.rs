//! Finds the JSON in the output of a command: a script in the tool's place, or a wrapper, can print lines of its
//! own before it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How far the beginning of the JSON is looked for, in bytes.
const MAX_BANNER: usize = 64 * 1024;

/// The position of the JSON object in `output`: behind lines that do not begin with a brace. 0 if there is none.
pub(super) fn json_offset(output: &[u8]) -> usize {
    let head = &output[..output.len().min(MAX_BANNER)];
    let begins_line = |at: usize| {
        let mut line = head[..at].iter().rev().take_while(|byte| **byte != b'\n');
        line.all(u8::is_ascii_whitespace)
    };
    memchr::memchr_iter(b'{', head).find(|at| begins_line(*at)).unwrap_or_default()
}

/// Opens the output of a command in a file, at its JSON.
///
/// # Errors
/// If it cannot be read.
pub(super) fn open_json(path: &Path) -> std::io::Result<File> {
    let mut file = File::open(path)?;
    let mut head = Vec::with_capacity(MAX_BANNER);
    file.by_ref().take(MAX_BANNER as u64).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(json_offset(&head) as u64))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_before_the_json_are_skipped() {
        for (output, json) in [
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("\n{\"a\": 1}", "{\"a\": 1}"),
            ("Using {version} 1.11.4\nterraform {x}\n{\"a\": {\n{}}}", "{\"a\": {\n{}}}"),
            ("  {\"a\": 1}", "{\"a\": 1}"),
            ("no JSON {", "no JSON {"),
            ("", ""),
        ] {
            assert_eq!(&output[json_offset(output.as_bytes())..], json);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), output).unwrap();
            let mut read = String::new();
            open_json(file.path()).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, json);
        }
        let long = format!("{}\n{{}}", "x".repeat(MAX_BANNER));
        assert_eq!(json_offset(long.as_bytes()), 0);
    }
}
