//! The memory of a run beside its message, counted by an allocator, for messages that are made to
//! take much. The caller reserves this much for a run.

#[path = "rfc/world.rs"]
#[allow(dead_code)]
mod world;

use posthaste_sieve::{Capabilities, Script};
use posthaste_testkit::CountingAllocator;

use world::World;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator::new();

/// One test: the allocator counts for the whole process.
#[test]
fn a_run_keeps_within_its_memory() {
    const LEN: usize = 16 << 20;
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
    let messages = [
        ("fields of the header", "a\n".repeat(LEN / 2).into_bytes()),
        ("fields of a nested header", in_nested("a\n")),
        ("named fields of a nested header", in_nested("a:\n")),
        ("latin text", text("", b"\xfc")),
        ("signs of three bytes", text("", b"\x80")),
        ("base64", text("Content-Transfer-Encoding: base64\r\n", b"/Pz8")),
        ("parts", parts.into_bytes()),
    ];
    let scripts = [
        "require \"body\"; if body :content \"message/rfc822\" :contains \"x\" { discard; }",
        "require \"body\"; if body :text :contains \"x\" { discard; }",
        "require \"mime\"; if header :mime :anychild :contains \"a\" \"x\" { discard; }",
        "require \"mime\"; if exists :mime :anychild \"a\" { discard; }",
    ];
    for (what, message) in &messages {
        for source in scripts {
            let script = Script::compile(source, &Capabilities::default()).expect("a script");
            let world = World::default();
            let (took, outcome) = COUNTING.most_during(|| script.run(message, &world));
            println!("{what}: {} bytes took {took}: {:?}", message.len(), outcome.error);
            assert!(took <= message.len() * 8 + (4 << 20), "{what} took {took} with {source}");
            assert!(outcome.error.is_some() || *what != "fields of the header", "{what}");
        }
    }
}
