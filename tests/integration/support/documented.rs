//! Tables in the documentation that tests check.

/// Asserts that the table below `<!-- marker -->` in `file` (a path in the repository) consists of
/// exactly these rows, after its two header lines. With `BUTLER_TEST_WRITE_DOCS` set, writes them
/// there instead.
pub(crate) fn assert_documented(file: &str, marker: &str, rows: &[String]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mark = format!("<!-- {marker} -->\n");
    let (before, after) = text.split_once(&mark).expect("the document has the marker");
    let table: Vec<&str> = after.lines().take_while(|line| line.starts_with('|')).collect();
    let (header, written) = table.split_at(table.len().min(2));
    #[expect(clippy::disallowed_methods, reason = "set by whoever writes the tables anew")]
    let rewrite = std::env::var_os("BUTLER_TEST_WRITE_DOCS").is_some();
    if rewrite {
        let rest: String = after.lines().skip(table.len()).flat_map(|line| [line, "\n"]).collect();
        let header = header.join("\n");
        let rows = rows.join("\n");
        std::fs::write(&path, format!("{before}{mark}{header}\n{rows}\n{rest}")).unwrap();
    } else {
        assert_eq!(written, rows, "{file} says something else; see CONTRIBUTING.md");
    }
}
