//! The memory of a run besides its message, counted by an allocator, for messages that are made
//! to take much. The caller reserves this much for a run.

#[path = "rfc/world.rs"]
#[allow(dead_code)]
mod world;

use posthaste_sieve::{Capabilities, Script};
use posthaste_testkit::CountingAllocator;

use world::World;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// Bytes of a long message.
const LEN: usize = 16 << 20;

/// Messages that take much memory, with what is in them.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let in_nested = |line: &str| {
        format!("Content-Type: message/rfc822\r\n\r\n{}\r\n\r\n", line.repeat(LEN / line.len())).into_bytes()
    };
    let text = |header: &str, bytes: &[u8]| {
        let mut message =
            format!("Content-Type: text/plain; charset=windows-1252\r\n{header}\r\n").into_bytes();
        message.extend(bytes.iter().cycle().take(LEN));
        message
    };
    let parts = format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\na: b\n\n".repeat(LEN / 10));
    vec![
        ("fields of the header", "a\n".repeat(LEN / 2).into_bytes()),
        ("fields of a nested header", in_nested("a\n")),
        ("named fields of a nested header", in_nested("a:\n")),
        ("latin text", text("", b"\xfc")),
        ("signs of three bytes", text("", b"\x80")),
        ("base64", text("Content-Transfer-Encoding: base64\r\n", b"/Pz8")),
        ("parts", parts.into_bytes()),
        ("fractions of Latin", text("", b"\xbd")),
        ("ligatures", text("", "\u{fdfa}".as_bytes())),
        ("ligatures in UTF-8", {
            let mut message = b"Content-Type: text/plain; charset=utf-8\r\n\r\n".to_vec();
            message.extend("\u{fdfa}".as_bytes().iter().cycle().take(LEN));
            message
        }),
        ("a long field", format!("A: {}\r\n\r\nx\r\n", "b".repeat(80_000)).into_bytes()),
        ("a short field", b"A: x\r\n\r\nx\r\n".to_vec()),
        ("a field that nearly matches", format!("A: x{}\r\n\r\nx\r\n", "abdc".repeat(2_000)).into_bytes()),
        ("a field that matches", format!("A: xa{}abababx\r\n\r\nx\r\n", "abdc".repeat(38)).into_bytes()),
        ("a header at its bound", format!("A: {}\r\n\r\nx\r\n", "b".repeat(1_000_000)).into_bytes()),
        ("a long parameter", format!("A: x; n={}\r\n\r\nx\r\n", "b".repeat(500_000)).into_bytes()),
        ("many small parts", {
            let parts = "--b\r\n\r\nx\r\n".repeat(5_000);
            format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}").into_bytes()
        }),
    ]
}

/// Scripts that take much memory.
fn scripts() -> Vec<String> {
    let distinct: String = (0x800..0xd800_u32).take(50_000).filter_map(char::from_u32).collect();
    let wildcards =
        format!("if header :comparator \"i;octet\" :matches \"a\" \"*?{distinct}*\" {{ discard; }}");
    let regex = format!(
        "require [\"regex\", \"variables\"]; if header :comparator \"i;octet\" :regex \"a\" \"x[a-c][a-d]{{150}}{}[x-z]\" {{ discard; }}",
        "([ab]?)".repeat(100)
    );
    // A script reads the key of this one when it runs.
    let read = format!(
        "require [\"regex\", \"variables\"]; set \"x\" \"{}\"; if header :regex \"a\" \"${{x}}\" {{ discard; }}",
        "([a-c]x?)*".repeat(50)
    );
    let versions: String =
        (0..60).map(|n| format!("addheader \"X\" \"{n}\"; fileinto :copy \"a{n}\";")).collect();
    let left_out = "addheader \"Return-Path\" \"x\";".repeat(190);
    let (long, value) = ("b".repeat(200_000), "${a}".repeat(7));
    let variables: String = (0..200).map(|n| format!("set \"v{n}\" \"{value}\";")).collect();
    let made = vec![format!("\"{}\"", "${a}".repeat(4)); 300].join(",");
    let stars = "*".repeat(32 * 1024);
    let one = format!("if header :matches \"a\" \"${{b}}{stars}\" {{ discard; }}");
    let params = format!("header :mime :param [{}\"n\"] \"a\" \"x\"", "\"n\",".repeat(100));
    vec![
        format!(
            "require \"variables\"; set \"a\" \"{}\"; if header :matches \"a\" [{made}] {{ discard; }}",
            "*b".repeat(4_000)
        ),
        format!("require \"variables\"; {one}"),
        format!(
            "require [\"enotify\", \"variables\"]; set \"a\" \"{}\"; notify :options [{made}] \"mailto:a@b.c\";",
            "y".repeat(8_000)
        ),
        format!("require \"mime\"; if {params} {{ discard; }}"),
        format!("require [\"editheader\", \"fileinto\", \"copy\"]; {versions}"),
        format!("require [\"foreverypart\", \"editheader\"]; foreverypart {{ {left_out} }}"),
        format!(
            "require [\"foreverypart\", \"enotify\", \"variables\"]; foreverypart {{ set \"n\" \"${{n}}x\"; \
             notify :message \"${{n}}\" \"mailto:a@b.c?body={long}\"; }}"
        ),
        format!("require \"variables\"; set \"a\" \"{}\"; {variables}", "y".repeat(8_000)),
        wildcards,
        regex,
        read,
        "require [\"body\", \"comparator-i;unicode-casemap\"]; if body :text :comparator \"i;unicode-casemap\" :matches \"*x*\" { discard; }".to_owned(),
        "require [\"body\", \"regex\"]; if body :text :regex \"x[yz]{100}\" { discard; }".to_owned(),
        "require \"body\"; if body :content \"message/rfc822\" :contains \"x\" { discard; }".to_owned(),
        "require \"body\"; if body :text :contains \"x\" { discard; }".to_owned(),
        "require \"mime\"; if header :mime :anychild :contains \"a\" \"x\" { discard; }".to_owned(),
        "require \"mime\"; if exists :mime :anychild \"a\" { discard; }".to_owned(),
    ]
}

/// One test: the allocator counts for the whole process.
#[test]
fn a_run_keeps_within_its_memory() {
    let scripts = scripts();
    for (what, message) in messages() {
        for source in &scripts {
            let script = Script::compile(source, &Capabilities::default()).expect("a script");
            let world = World::default();
            let (took, outcome) = COUNTING.most_during(|| script.run(&message, &world));
            println!("{what}: {} bytes took {took}: {:?}", message.len(), outcome.error);
            assert!(took <= message.len() * 8 + (4 << 20), "{what} took {took} with {source}");
            assert!(outcome.error.is_some() || what != "fields of the header", "{what}");
        }
    }
}
