//! Any bytes as a stored record: refused, or read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_mime_summary::{FieldMask, SearchKey, Section, SummaryRef};

fuzz_target!(|record: &[u8]| {
    let Ok(summary) = SummaryRef::new(record) else { return };
    let mut out = Vec::new();
    for mask in [FieldMask::only(["from", "x-own"]), FieldMask::all_but(["to"])] {
        out.clear();
        summary.header_fields(&mask).append_to(&mut out);
        assert_eq!(out.len(), summary.header_fields(&mask).len());
    }
    for path in [&[][..], &[1], &[2, 1], &[1, 1, 1]] {
        for section in [Section::Body, Section::Header, Section::Text, Section::Mime] {
            summary.locate(path, section);
        }
    }
    SearchKey::new("x").is_in_text(record, &summary);
    let _ = (summary.preview(), summary.sort_cc(), summary.reference_hashes().count(), summary.base_subject());
});
