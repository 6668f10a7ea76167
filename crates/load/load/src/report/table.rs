//! Tables: a head with units, figures to the right, wrong things marked.

use super::markup::Markup;

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// Said after it in a quieter voice: a ratio.
    pub aside: Option<String>,
    /// Whether it is a fault.
    pub bad: bool,
    /// Shown when pointed at.
    pub hint: String,
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
    Cell { text: super::number::whole(count), bad: count > 0, ..Cell::default() }
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
    /// With these heads.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|h| (*h).to_owned()).collect(), ..Self::default() }
    }

    /// Of a name and its value in words.
    pub fn words(rows: Vec<(String, String)>) -> Self {
        let rows = rows.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
        Self { rows, words: true, ..Self::default() }
    }

    /// As HTML; nothing if there are no rows.
    pub fn draw(&self, out: &mut Markup) {
        if self.rows.is_empty() {
            return;
        }
        out.raw("<div class=\"table\">").open("table", if self.words { &[("class", &"words")] } else { &[] });
        if !self.head.is_empty() {
            out.raw("<thead><tr>");
            for head in &self.head {
                out.element("th", &[], head);
            }
            out.raw("</tr></thead>\n");
        }
        out.raw("<tbody>\n");
        for (at, row) in self.rows.iter().enumerate() {
            let last = self.total && at + 1 == self.rows.len();
            out.open("tr", if last { &[("class", &"total")] } else { &[] });
            for cell in row {
                draw_cell(out, cell);
            }
            out.close("tr");
        }
        out.raw("</tbody></table></div>\n");
    }
}

fn draw_cell(out: &mut Markup, cell: &Cell) {
    match (cell.bad, cell.hint.is_empty()) {
        (true, true) => out.open("td", &[("class", &"bad")]),
        (true, false) => out.open("td", &[("class", &"bad"), ("title", &cell.hint)]),
        (false, true) => out.open("td", &[]),
        (false, false) => out.open("td", &[("title", &cell.hint)]),
    };
    out.text(&cell.text);
    if let Some(aside) = &cell.aside {
        out.element("span", &[("class", &"quiet")], aside);
    }
    out.close("td");
}
