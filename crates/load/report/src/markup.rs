//! Writes HTML and SVG that is well-formed by construction.
//!
//! Tag and attribute names and raw pieces are `&'static str`, so they can only come from this
//! program. Everything else is escaped. A server called `<script>` is text and nothing more.

use std::fmt::{Display, Write};

/// A piece of HTML or SVG.
#[derive(Clone, Debug, Default)]
pub struct Markup {
    text: String,
}

/// Attributes of an element.
pub type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

impl Markup {
    /// Markup without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Markup of this program, added as it is.
    pub fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.text.push_str(literal);
        self
    }

    /// Text from anywhere.
    pub fn text(&mut self, text: &str) -> &mut Self {
        escape(text, &mut self.text);
        self
    }

    /// A start tag.
    pub fn open(&mut self, tag: &'static str, attributes: Attributes) -> &mut Self {
        self.start(tag, attributes);
        self.text.push('>');
        self
    }

    /// The end tag of the element opened last.
    pub fn close(&mut self, tag: &'static str) -> &mut Self {
        let _ = writeln!(self.text, "</{tag}>");
        self
    }

    /// An element that holds text.
    pub fn element(&mut self, tag: &'static str, attributes: Attributes, text: &str) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// An element that holds nothing. In HTML itself only for elements of SVG, which may be closed
    /// like this.
    pub fn leaf(&mut self, tag: &'static str, attributes: Attributes) -> &mut Self {
        self.start(tag, attributes);
        self.text.push_str("/>\n");
        self
    }

    /// Another piece.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.text.push_str(&other.text);
        self
    }

    /// The written text.
    pub fn into_string(self) -> String {
        self.text
    }

    fn start(&mut self, tag: &'static str, attributes: Attributes) {
        let _ = write!(self.text, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"");
            escape(&value.to_string(), &mut self.text);
            self.text.push('"');
        }
    }
}

/// Escapes for text and for attributes in double quotes. Characters that XML does not allow become
/// U+FFFD. Marks that turn the direction of writing are shown as such, so that no name can
/// rearrange the text beside it.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "[U+{:04X}]", c as u32);
            }
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn untrusted_text_is_escaped() {
        let mut m = Markup::new();
        m.element(
            "p",
            &[("title", &"\"><script>alert(1)</script>")],
            "</p><img src=x onerror='a'>\u{0}\u{202e}",
        );
        let text = m.into_string();
        assert_eq!(
            text,
            "<p title=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\">\
             &lt;/p&gt;&lt;img src=x onerror=&#39;a&#39;&gt;\u{fffd}[U+202E]</p>\n"
        );
    }

    properties! {
        #[test]
        fn any_text_comes_back_from_a_parser(text in "[^\\p{C}]{0,40}", value in any::<String>()) {
            let mut m = Markup::new();
            m.open("g", &[("class", &value)]).text(&text).close("g");
            let xml = m.into_string();
            let document = roxmltree::Document::parse(xml.trim_end()).unwrap();
            prop_assert_eq!(document.root_element().text().unwrap_or_default(), text);
            prop_assert_eq!(document.root().children().count(), 1);
        }
    }
}
