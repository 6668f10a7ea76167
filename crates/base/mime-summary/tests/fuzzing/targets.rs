//! The code of the fuzz targets `message` and `summary`, which include this file.

use posthaste_mime_summary::{
    DecodedParts, Envelope, FieldMask, HeaderFields, SearchKey, Section, Structure, SummaryParts, SummaryRef,
};

/// Any bytes as a message: no panic, ranges inside each other, and a record that can be read and
/// searched.
pub fn message(message: &[u8]) {
    let mut structure = Structure::parse(message);
    for decoded in structure.decode_messages(message) {
        let root = decoded.structure().root();
        assert_eq!(root.body.end as usize, decoded.bytes().len());
        let found = DecodedParts::of(decoded.bytes()).locate(&[], Section::Header);
        assert_eq!(found.map(|found| found.span), Some(root.header));
    }
    for (index, part) in (0_u32..).zip(structure.parts()) {
        let mut at = part.body.start;
        for (_, child) in structure.children(index) {
            assert!(at <= child.header.start && child.body.end <= part.body.end);
            at = child.body.end;
        }
        let media = part.media(message);
        let _ = (media.params.decoded("name"), part.encoding_name(message));
        Envelope::of(message, HeaderFields::new(message, part.header));
    }
    let parts = SummaryParts {
        message,
        structure: &structure,
        envelope: b"",
        repeated: 0..0,
        body: b"",
        body_structure: b"",
    };
    let record = parts.encode();
    let summary = SummaryRef::new(&record).expect("a record that was just made");
    let key = SearchKey::new("ß ü");
    key.is_in_text(message, &summary);
    let mask = FieldMask::all_but(["to"]);
    if !summary.needs_body(&mask) {
        let (mut kept, mut read) = (Vec::new(), Vec::new());
        summary.header_fields(&mask).append_to(&mut kept);
        mask.append_from_header(structure.root().header.of(message), &mut read);
        assert_eq!(kept, read);
    }
}

/// Any bytes as a stored record: refused, or read without a panic.
pub fn summary(record: &[u8]) {
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
            summary.locate_in_decoded(path, section);
        }
    }
    SearchKey::new("x").is_in_text(record, &summary);
    let _ =
        (summary.preview(), summary.sort_cc(), summary.reference_hashes().count(), summary.base_subject());
}
