//! The teaching programs in `examples/` do what they say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../examples/drive_server.rs"]
mod drive_server;
#[path = "../../../../examples/embed_store.rs"]
mod embed_store;

use posthaste_testkit::ServerBuilder;

#[tokio::test]
async fn a_program_embeds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    // The second time, the store is there already.
    for _ in 0..2 {
        let said = embed_store::run(dir.path()).await.unwrap();
        let expected = [
            "appended 3 messages",
            "3 more than before",
            "67 octets: minutes of monday",
            "54 octets: lunch?",
            "68 octets: minutes of tuesday",
            "2 have \"minutes\" in their subject",
            "1 unseen",
            "0 left of them",
        ];
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn a_program_drives_a_server() {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start();
    server.add_account("ana@example.org", "correct horse");
    let port = server.address("imap").port();
    let said = drive_server::run("127.0.0.1", port, "ana@example.org", "correct horse").await.unwrap();
    let expected = ["appended 2 messages", "2 envelopes", "1 have \"two\" in their subject", "2 expunged"];
    assert_eq!(said, expected);
    assert!(drive_server::run("127.0.0.1", port, "ana@example.org", "wrong").await.is_err());
}
