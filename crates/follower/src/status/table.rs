//! Plain text tables: columns, separated by two spaces.

use std::fmt;

/// A table whose rows have one cell for each heading.
pub(super) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(super) fn new(headings: &[&str; COLUMNS]) -> Self {
        Self { rows: vec![headings.map(str::to_owned)] }
    }

    /// Adds a row. A control character would break the table, or the terminal.
    pub(super) fn push(&mut self, row: [String; COLUMNS]) {
        let is_control = |letter: char| letter.is_control();
        self.rows.push(row.map(|cell| cell.replace(is_control, " ")));
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for row in &self.rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(formatter, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}
