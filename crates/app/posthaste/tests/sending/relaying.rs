//! Servers that send mail to each other, and ana of `a.test`, who hands it in.

use std::net::SocketAddr;
use std::path::Path;

use posthaste_testkit::{Server, ServerBuilder};

pub(crate) const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@a.test` NUL `correct horse`.
pub(crate) const PLAIN: &str = "AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";

/// A server with these settings, which takes mail by all protocols.
pub(crate) fn serving(data: &Path, smtp: SocketAddr, settings: &str) -> Server {
    std::fs::create_dir_all(data).unwrap();
    ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .data(data)
        .settings(&data.join("settings.toml"), settings)
        .listen(&format!("smtp={smtp}"))
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("submission=127.0.0.1:0")
        .start()
}

/// A server for one domain that relays, with more settings of `[relay]`.
pub(crate) fn relaying(data: &Path, domain: &str, smtp: SocketAddr, relay: &str) -> Server {
    let settings = format!(
        "hostname = \"mail.{domain}\"\ndomain = \"{domain}\"\n[relay]\nenabled = true\nretry_first = \"1 s\"\n{relay}\n"
    );
    serving(data, smtp, &settings)
}

/// The setting of `[relay]` that sends mail for a domain to an address.
pub(crate) fn route(domain: &str, host: SocketAddr) -> String {
    format!("routes = [{{ domain = \"{domain}\", host = \"{host}\" }}]")
}
