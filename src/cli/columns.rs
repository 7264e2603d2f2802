//! Text in columns.

/// One line for each row; each column is as wide as its widest cell, with two spaces between columns.
/// Empty columns and trailing spaces are left out.
pub(in crate::cli) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> =
        (0..rows.iter().map(Vec::len).max().unwrap_or_default()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A size with a decimal unit.
pub(in crate::cli) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["1.9.8", "", "default"], ["1.10.0", "", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "1.9.8   default\n1.10.0");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        let sizes = [999, 1000, 92_345_678, 1_950_000_000].map(size);
        assert_eq!(sizes, ["999 B", "1.0 kB", "92.3 MB", "1.9 GB"]);
    }
}
