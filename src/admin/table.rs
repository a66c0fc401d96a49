//! Tables for people: columns as wide as their widest cell.

/// Rows under a head, columns two spaces apart. Control characters are shown as `?`, so that no
/// key can rewrite the terminal.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&head).chain(rows).map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// A cell without control characters.
pub(super) fn plain(cell: &str) -> String {
    cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["0".to_owned(), "4".to_owned()], vec!["1234".to_owned(), "16".to_owned()]];
        assert_eq!(table(&["V", "SHARDS"], &rows), "V     SHARDS\n0     4\n1234  16\n");
    }

    #[test]
    fn a_key_can_not_rewrite_the_terminal() {
        assert_eq!(table(&["KEY"], &[vec!["a\u{1b}[2J\n".to_owned()]]), "KEY\na?[2J?\n");
    }
}
