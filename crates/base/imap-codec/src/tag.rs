//! Tags and capability names: the two kinds of atom that both directions carry.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::limits::TAG_BYTES_MAX;

/// The tag that a client puts before a command and a server repeats at its end. RFC 9051 §2.2.1:
/// `tag = 1*<any ASTRING-CHAR except "+">`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tag(Box<str>);

impl Tag {
    /// A tag from its text; `None` for what the grammar does not allow or over [`TAG_BYTES_MAX`]
    /// bytes.
    pub fn new(text: impl AsRef<[u8]>) -> Option<Self> {
        let bytes = text.as_ref();
        let fits = !bytes.is_empty() && bytes.len() <= TAG_BYTES_MAX;
        if !fits || !bytes.iter().all(|&b| crate::chars::is_tag_char(b)) {
            return None;
        }
        std::str::from_utf8(bytes).ok().map(|s| Self(s.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", self.0)
    }
}

/// A capability by name, compared without regard to ASCII case: RFC 9051 §7.2.2.
#[derive(Clone)]
pub struct Capability(Box<str>);

impl Capability {
    /// A capability from its text; `None` if that is no atom.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty() && text.bytes().all(crate::chars::is_astring_char)).then(|| Self(text.into()))
    }

    /// The text as first written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}
impl Eq for Capability {}
impl PartialEq<str> for Capability {
    fn eq(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}
impl Hash for Capability {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for b in self.0.bytes() {
            state.write_u8(b.to_ascii_lowercase());
        }
    }
}
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
