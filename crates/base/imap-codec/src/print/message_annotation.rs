//! Annotations of messages, for a client and for a server: RFC 5257 §5.

use super::command::CommandPrinter;
use super::{astring, literal8_head, nstring};
use crate::message_annotation::is_pattern_char;
use crate::{AnnotationData, AnnotationItem, EntryPattern, ValueAttribute, ValueChange, ValueScope};

impl CommandPrinter {
    pub(super) fn entry_pattern(&mut self, pattern: &EntryPattern) {
        let text = pattern.as_str();
        match text.bytes().all(is_pattern_char) {
            true => self.put(text),
            false => self.string(text.as_bytes()),
        }
    }

    pub(super) fn annotation_item(&mut self, item: &AnnotationItem) {
        self.put("ANNOTATION (");
        self.one_or_more(&item.entries, Self::entry_pattern);
        self.put(" ");
        self.one_or_more(&item.attributes, |p, ValueAttribute { kind, scope }| {
            p.put(kind.name());
            p.put(scope.map_or("", ValueScope::suffix));
        });
        self.put(")");
    }

    fn one_or_more<T>(&mut self, items: &[T], mut print: impl FnMut(&mut Self, &T)) {
        match items {
            [one] => print(self, one),
            several => self.list(several, print),
        }
    }

    pub(super) fn value_change(&mut self, change: &ValueChange) {
        self.astring(change.entry.as_str().as_bytes());
        self.put(" (value");
        self.put(change.scope.suffix());
        self.put(" ");
        self.value(change.value.as_deref());
        self.put(")");
    }
}

/// Appends `NIL`, a string, or a literal8 where the value holds NUL.
pub fn annotation_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) if memchr::memchr(0, value).is_some() => {
            literal8_head(out, value.len() as u64);
            out.extend_from_slice(value);
        }
        value => nstring(out, value),
    }
}

/// Appends `(/comment (value.priv "x"))`, or `(/comment)`.
pub(super) fn annotation_data(out: &mut Vec<u8>, all: &[AnnotationData]) {
    super::list(out, all, |out, AnnotationData { entry, attributes }| {
        astring(out, entry.as_str().as_bytes());
        if !attributes.is_empty() {
            out.push(b' ');
            super::list(out, attributes, |out, (name, value)| {
                astring(out, name.as_bytes());
                out.push(b' ');
                annotation_value(out, value.as_deref());
            });
        }
    });
}
