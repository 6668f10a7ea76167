//! How wide text is. No font is available when a report is written, so this errs on the wide side.

/// Size of text in plots, in pixels.
pub const SIZE: f64 = 12.0;

/// The width of a text in pixels at [`SIZE`]: widths of a common sans-serif face, one tenth added
/// because the reader's face may be wider.
pub fn width(text: &str) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '·' => 0.29,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.36,
            'm' | 'w' | 'M' | 'W' | '@' | '%' | '–' | '…' => 0.87,
            'A'..='Z' => 0.70,
            c if (c as u32) >= 0x1100 => 1.0,
            _ => 0.56,
        })
        .sum();
    ems * SIZE * 1.1
}

/// The text, cut with an ellipsis if it is wider than this many pixels.
pub fn fitted(text: &str, pixels: f64) -> String {
    if width(text) <= pixels {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept) + width("…") > pixels {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_to_fit() {
        assert_eq!(fitted("SEARCH", 200.0), "SEARCH");
        let cut = fitted("a name that is much too long to stand beside a bar", 100.0);
        assert!(cut.ends_with('…') && width(&cut) <= 100.0, "{cut}");
        assert!(width("1,000,000") > 50.0 && width("1,000,000") < 80.0);
    }
}
