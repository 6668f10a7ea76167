//! The memory of a conversion, counted by an allocator, for messages that are made to take much.

use posthaste_testkit::CountingAllocator;
use posthaste_tnef::samples;
use posthaste_tnef::tags::{SET_PUBLIC_STRINGS, attribute, property};
use posthaste_tnef::{
    Attachment, Attribute, Kind, Message, Name, NameKey, Outcome, Property, Value, conversion_memory_max,
    convert, encode, enrich, restore, restore_memory_max, rtf,
};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Converts it; fails if that takes more than is promised.
fn check(what: &str, message: &[u8]) {
    let (for_rich, rich) = COUNTING.most_during(|| enrich(message));
    if let Some(rich) = rich {
        is_restored(what, &rich, message);
    }
    let (took, outcome) = COUNTING.most_during(|| convert(message));
    let (limit, len) = (conversion_memory_max(message.len()), message.len());
    let outcome = match outcome {
        Ok(Outcome::Converted(mime)) => format!("{} bytes of MIME", mime.len()),
        other => format!("{other:?}"),
    };
    println!("{what}: {len} bytes took {took} of {limit}: {outcome}");
    assert!(took <= limit, "{what}: {len} bytes took {took}; the promise is {limit}");
    assert!(for_rich <= limit, "{what}: {len} bytes as rich mail took {for_rich}; the promise is {limit}");
}

/// Restores an ordinary message; fails if that takes more than is promised.
fn is_restored(what: &str, rich: &[u8], message: &[u8]) {
    let (took, restored) = COUNTING.most_during(|| restore(rich, message.len()));
    let limit = restore_memory_max(message.len());
    assert!(restored.is_ok_and(|restored| restored == message), "{what}");
    assert!(took <= limit, "{what}: {} bytes took {took}; the promise is {limit}", message.len());
}

fn with(properties: Vec<Property>) -> Message {
    Message { properties, ..Message::default() }
}

fn with_rtf(rtf: &[u8]) -> Message {
    with(vec![Property::new(property::RTF_COMPRESSED, Value::Binary(rtf::compress(rtf)))])
}

/// A message whose content is TNEF as it is, and one that has it in base64.
fn both(what: &str, rich: &Message) {
    let tnef = encode(rich).expect("valid");
    let head = b"Content-Type: application/ms-tnef\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    check(what, &[&head[..], &tnef].concat());
    check(what, &samples::mail(rich));
}

/// RTF with pictures of these bytes, each as digits.
fn with_pictures(pictures: &[Vec<u8>]) -> Message {
    let mut rtf = b"{\\rtf1 ".to_vec();
    for picture in pictures {
        rtf.extend(b"{\\pict\\jpegblip ");
        let digits = picture.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        rtf.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
        rtf.push(b'}');
    }
    rtf.push(b'}');
    with_rtf(&rtf)
}

fn pictures() {
    let mut state = 1_u32;
    let mut noise = |len: usize| -> Vec<u8> {
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        [0xFF, 0xD8, 0xFF].into_iter().chain(bytes.take(len)).collect()
    };
    both("a photo in RTF", &with_pictures(&[noise(2 << 20)]));
    both("tiny pictures", &with_pictures(&(0..20_000).map(|_| noise(3)).collect::<Vec<_>>()));
    both("a picture of zeros", &with_pictures(&[[vec![0xFF, 0xD8, 0xFF], vec![0; 2 << 20]].concat()]));
    both("a picture again and again", &with_pictures(&vec![noise(3); 20_000]));
    let mut inner = with_pictures(&(0..900).map(|_| noise(3)).collect::<Vec<_>>());
    inner.attachments = vec![samples::forwarded(inner.clone()); 100];
    both("messages with pictures", &inner);
}

/// Events of occurrences, each with all attendees.
fn changed_occurrences() {
    for (count, attendees) in [(7_000, 1), (7_000, 1_000), (40, 20)] {
        let mut series = samples::often_changed_series(count);
        let row = series.recipients[0].clone();
        series.recipients = vec![row; attendees];
        both("changed occurrences", &series);
    }
}

/// Each of some thousand events looked at all categories of the message.
fn changed_occurrences_of_a_message_with_many_properties() {
    let mut series = samples::often_changed_series(7_000);
    let name = Name { set: SET_PUBLIC_STRINGS, key: NameKey::Text("Keywords".to_owned()) };
    let value = Value::Many(Kind::String8, vec![Value::String8(b" ".to_vec()); 50_000]);
    series.properties.push(Property { id: 0x8000, name: Some(Box::new(name)), value });
    let message = samples::mail(&series);
    let (made, outcome) = COUNTING.allocations_during(|| convert(&message));
    assert!(matches!(outcome, Ok(Outcome::Converted(_))), "{outcome:?}");
    println!("changed occurrences of a message with many properties: {made} allocations");
    assert!(made < 4_000_000, "{made} allocations");
}

/// Texts that become far longer as HTML, and lists of names that take far more as strings.
fn texts_that_grow() {
    both("tabs", &with_rtf(&[&b"{\\rtf1 "[..], &b"\t".repeat(10 << 20), b"}"].concat()));
    let names = Value::String8(b"a;".repeat(6_000_000));
    both("names", &with(vec![Property::new(property::DISPLAY_TO, names)]));
}

/// Ordinary mail up to the length that delivery encodes without memory set aside for it: messages
/// that are made to take much.
fn short_ordinary_mail() {
    const LEN_MAX: usize = 64 << 10;
    const MEMORY_MAX: usize = 16 << 20;
    let filled = |head: &str, more: &str| {
        let times = (LEN_MAX - head.len()) / more.len();
        [head, &more.repeat(times)].concat().into_bytes()
    };
    let mixed = "Content-Type: multipart/mixed; boundary=b\r\n\r\n";
    for (what, message) in [
        ("parts", filled(mixed, "--b\n\n")),
        ("files", filled(mixed, "--b\nContent-Type: a/b\n\nx\n")),
        ("recipients", filled("To: ", "a@b,")),
        ("fields", filled("", "a:\n")),
        ("a text that is no ASCII", filled("Content-Type: text/plain; charset=koi8-r\r\n\r\n", "\u{fc}")),
    ] {
        let (took, rich) = COUNTING.most_during(|| enrich(&message));
        println!("{what}: {} bytes as rich mail took {took} of {MEMORY_MAX}", message.len());
        is_restored(what, &rich.expect("a rich form"), &message);
        assert!(took <= MEMORY_MAX, "{what}: {} bytes as rich mail took {took}", message.len());
    }
}

/// One test: the allocator counts for the whole process.
#[test]
fn conversions_keep_within_their_memory() {
    short_ordinary_mail();
    both("a note", &samples::note());
    let mut large = samples::note();
    large.attachments.push(samples::file("large.bin", &vec![0xA5; 8 << 20]));
    both("a large file", &large);
    for len in [2_000, 20_000, 2_000_000] {
        let paragraphs = [&b"{\\rtf1 "[..], &b"\\par".repeat(len), b"}"].concat();
        both("paragraphs", &with_rtf(&paragraphs));
        both(
            "styles",
            &with_rtf(&[&b"{\\rtf1 "[..], &b"\\b a\\i b\\b0 c\\i0 d".repeat(len / 4), b"}"].concat()),
        );
        both("quotes", &with_rtf(&[&b"{\\rtf1 "[..], &b"\"&<".repeat(len), b"}"].concat()));
        both("spaces in RTF made from HTML", &with_rtf(&rtf::wrap_html(&"&nbsp;".repeat(len / 20))));
        both("text that is no ASCII", &with(vec![samples::text(property::BODY, &"\u{fc}".repeat(len))]));
        both(
            "HTML of line ends",
            &with(vec![samples::text(property::HTML, &format!("x{}", "\n".repeat(len)))]),
        );
    }
    let empty = Property::new(1, Value::Null);
    both("properties", &with(vec![empty.clone(); 99_000]));
    both("too many properties", &with(vec![empty; 200_000]));
    both("values", &with(vec![Property::new(1, Value::Many(Kind::Int16, vec![Value::Int16(1); 99_000]))]));
    both("recipients", &Message { recipients: vec![vec![]; 99_000], ..Message::default() });
    both("attachments", &Message { attachments: vec![Attachment::default(); 40_000], ..Message::default() });
    let file = Attachment {
        attributes: vec![Attribute { id: attribute::ATTACH_DATA, data: vec![1] }],
        ..Attachment::default()
    };
    both("tiny files", &Message { attachments: vec![file; 40_000], ..Message::default() });
    // Work that grows with the square would take hours. There are images by the thousand in HTML of
    // megabytes, links within links, and attachments of a message with many properties.
    let image = Attachment {
        attributes: vec![Attribute { id: attribute::ATTACH_DATA, data: vec![1] }],
        properties: vec![samples::text(property::ATTACH_CONTENT_ID, "image")],
        ..Attachment::default()
    };
    let html = samples::text(property::HTML, &"cid:x:cid:".repeat(600_000));
    let properties = [vec![html], vec![Property::new(1, Value::Null); 20_000]].concat();
    both("images", &Message { properties, attachments: vec![image; 19_000], ..Message::default() });
    let link = b"{\\field{\\*\\fldinst HYPERLINK \"http://x\"}";
    both("links", &with_rtf(&[&link.repeat(900)[..], &b"a".repeat(1 << 20), &b"}".repeat(900)].concat()));
    pictures();
    changed_occurrences();
    changed_occurrences_of_a_message_with_many_properties();
    texts_that_grow();
    let parts = b"--b\r\nContent-Type: application/ms-tnef\r\n\r\n\r\n".repeat(10_000);
    let fields = b"X: y\r\n".repeat(100_000);
    let head = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n";
    check("TNEF parts", &[&fields[..], head, &parts].concat());
    let mut nested = samples::note();
    for _ in 0..20 {
        nested = Message { attachments: vec![samples::forwarded(nested)], ..samples::note() };
    }
    both("nested", &nested);
}
