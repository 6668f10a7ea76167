//! Tables: a head with units, right-aligned figures, and marked faults.

use crate::markup::Markup;

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The cell's text.
    pub text: String,
    /// A ratio, shown after it and less prominently.
    pub aside: Option<String>,
    /// Whether it is a fault.
    pub bad: bool,
    /// Shown when pointed at.
    pub hint: String,
    /// Columns that it takes, if more than one: a reason in place of figures.
    pub columns: usize,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A count of faults: marked if there are any.
pub fn faults(count: u64) -> Cell {
    Cell { text: posthaste_load_text::figure::whole(count), bad: count > 0, ..Cell::default() }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Column heads.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the last row is a sum of the others.
    pub total: bool,
    /// Whether cells are words rather than figures: to the left, and wrapped.
    pub words: bool,
}

impl Table {
    /// A table with these heads.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|h| (*h).to_owned()).collect(), ..Self::default() }
    }

    /// A table of names and their values in words.
    pub fn words(rows: Vec<(String, String)>) -> Self {
        let rows = rows.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
        Self { rows, words: true, ..Self::default() }
    }

    /// Prints the table as HTML; nothing if there are no rows.
    pub fn draw(&self, out: &mut Markup) {
        if self.rows.is_empty() {
            return;
        }
        out.raw("<div class=\"table\">").open("table", if self.words { &[("class", &"words")] } else { &[] });
        if !self.head.is_empty() {
            out.raw("<thead><tr>");
            for (at, head) in self.head.iter().enumerate() {
                out.element("th", if self.is_of_words(at) { &[("class", &"word")] } else { &[] }, head);
            }
            out.raw("</tr></thead>\n");
        }
        out.raw("<tbody>\n");
        for (at, row) in self.rows.iter().enumerate() {
            let last = self.total && at + 1 == self.rows.len();
            out.open("tr", if last { &[("class", &"total")] } else { &[] });
            for (at, cell) in row.iter().enumerate() {
                draw_cell(out, cell, self.is_of_words(at));
            }
            out.close("tr");
        }
        out.raw("</tbody></table></div>\n");
    }

    /// Whether a column among figures holds names, which are set to the left. The text in place of
    /// a figure that is missing does not count as a name.
    fn is_of_words(&self, column: usize) -> bool {
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_alphabetic() || c == '_') && !text.starts_with("not offered")
        };
        let cells = || self.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.bad);
        !self.words && column > 0 && cells().any(|cell| is_word(&cell.text))
    }
}

fn draw_cell(out: &mut Markup, cell: &Cell, word: bool) {
    let class = match (cell.bad, word) {
        (true, true) => "bad word",
        (true, false) => "bad",
        (false, true) => "word",
        (false, false) => "",
    };
    let mut attributes: Vec<(&str, &dyn std::fmt::Display)> = Vec::new();
    if !class.is_empty() {
        attributes.push(("class", &class));
    }
    if !cell.hint.is_empty() {
        attributes.push(("title", &cell.hint));
    }
    if cell.columns > 1 {
        attributes.push(("colspan", &cell.columns));
    }
    out.open("td", &attributes);
    out.text(&cell.text);
    if let Some(aside) = &cell.aside {
        out.element("span", &[("class", &"quiet")], aside);
    }
    out.close("td");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_to_the_left_and_figures_to_the_right() {
        let mut table = Table::new(&["Server", "mix", "CPU (s)", "counters"]);
        table.rows = vec![
            ["A", "browse", "0.5", "not offered here"].map(Cell::from).to_vec(),
            ["B", "manage", "–", "12"].map(Cell::from).to_vec(),
        ];
        assert_eq!([0, 1, 2, 3].map(|c| table.is_of_words(c)), [false, true, false, false]);
    }
}
