//! Any bytes as a message: no panic, ranges inside each other, and a record that can be read and
//! searched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_mime_summary::{Envelope, FieldMask, HeaderFields, SearchKey, Structure, SummaryParts, SummaryRef};

fuzz_target!(|message: &[u8]| {
    let structure = Structure::parse(message);
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
    let parts = SummaryParts { message, structure: &structure, envelope: b"", repeated: 0..0, body: b"", body_structure: b"" };
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
});
