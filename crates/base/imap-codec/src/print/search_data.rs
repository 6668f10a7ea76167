//! The results of SEARCH, SORT and THREAD: `* SEARCH`, `* SORT`, `* THREAD` and `* ESEARCH` (RFC
//! 9051 §7.3.4, RFC 5256 §5).

use posthaste_mail_model::ModSeq;

use super::{list, mailbox, number, page_range, pair, put, quoted, ranges};
use crate::response::{Esearch, ThreadNode};
use crate::{NameEncoding, Numbering, PageRange};

/// Appends `SEARCH 2 5 (MODSEQ 7)`.
pub(super) fn found(out: &mut Vec<u8>, name: &str, numbers: &[u32], modseq: Option<ModSeq>) {
    put(out, name);
    for &n in numbers {
        out.push(b' ');
        number(out, u64::from(n));
    }
    if let Some(modseq) = modseq {
        pair(out, " (MODSEQ", modseq.value());
        out.push(b')');
    }
}

/// Prints the threads of a THREAD response node by node: RFC 5256 §5, thread-data. It remembers
/// one number for each open node with several children. So a long chain costs nothing.
#[derive(Debug, Default)]
pub struct ThreadPrinter {
    /// For each open node with several children: how many are still to come.
    left: Vec<u32>,
    /// Whether the next node is the only child of the last one.
    is_chained: bool,
}

impl ThreadPrinter {
    /// Appends the next node. Nodes come in the order of [`crate::response::Untagged::Thread`].
    pub fn node(&mut self, out: &mut Vec<u8>, node: ThreadNode) {
        if self.is_chained {
            out.push(b' ');
        } else {
            out.push(b'(');
            if let Some(left) = self.left.last_mut() {
                *left = left.saturating_sub(1);
            }
        }
        if let Some(n) = node.number {
            number(out, u64::from(n));
        }
        self.is_chained = node.children == 1;
        match node.children {
            0 => {
                out.push(b')');
                while self.left.pop_if(|left| *left == 0).is_some() {
                    out.push(b')');
                }
            }
            1 => {}
            several => {
                if node.number.is_some() {
                    out.push(b' ');
                }
                self.left.push(several);
            }
        }
    }
}

/// Appends `ESEARCH (TAG "a") UID MIN 1 …`, without `* ` and line end.
pub fn esearch(out: &mut Vec<u8>, value: &Esearch, names: NameEncoding) {
    esearch_begin(out, value, names);
    if let Some(all) = &value.all
        && !all.is_empty()
    {
        put(out, " ALL ");
        ranges(out, all);
    }
    if let Some((range, page)) = &value.partial {
        partial_begin(out, *range);
        match page.is_empty() {
            true => put(out, "NIL"),
            false => ranges(out, page),
        }
        out.push(b')');
    }
    esearch_end(out, value);
}

/// Appends ESEARCH up to its sets, for callers that print long sets in slices. `ALL` is next.
pub fn esearch_begin(out: &mut Vec<u8>, value: &Esearch, names: NameEncoding) {
    put(out, "ESEARCH");
    // RFC 7377 §3: each correlator once.
    let mut before = " (";
    if let Some(tag) = &value.tag {
        put(out, before);
        put(out, "TAG ");
        quoted(out, tag.as_str().as_bytes());
        before = " ";
    }
    if let Some((name, validity)) = &value.mailbox {
        put(out, before);
        put(out, "MAILBOX ");
        mailbox(out, name, names);
        put(out, " ");
        pair(out, "UIDVALIDITY", u64::from(validity.value()));
        before = " ";
    }
    if before == " " {
        out.push(b')');
    }
    if value.numbering == Numbering::Uid {
        put(out, " UID");
    }
    for (name, n) in [(" MIN", value.min), (" MAX", value.max), (" COUNT", value.count)] {
        if let Some(n) = n {
            pair(out, name, u64::from(n));
        }
    }
}

/// Appends ` PARTIAL (1:100 `. A set or `NIL` is next, and then `)`.
pub fn partial_begin(out: &mut Vec<u8>, range: PageRange) {
    put(out, " PARTIAL (");
    page_range(out, range);
    out.push(b' ');
}

/// Appends the data that ESEARCH has after its sets.
pub fn esearch_end(out: &mut Vec<u8>, value: &Esearch) {
    if let Some(scores) = &value.relevancy {
        put(out, " RELEVANCY ");
        list(out, scores, |out, score| number(out, u64::from(*score)));
    }
    if let Some(modseq) = value.modseq {
        pair(out, " MODSEQ", modseq.value());
    }
    for update in &value.updates {
        out.push(b' ');
        put(out, update.kind.name());
        out.push(b' ');
        list(out, &update.places, |out, (place, messages)| {
            number(out, u64::from(*place));
            out.push(b' ');
            ranges(out, messages);
        });
    }
}
