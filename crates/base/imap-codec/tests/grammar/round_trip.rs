//! Parsing the printed text gives the value back, in either direction and either name encoding.

use bytes::{Bytes, BytesMut};
use posthaste_imap_codec::command::SearchArgs;
use posthaste_imap_codec::framing::{
    CommandFrame, CommandFramer, LiteralSync, ResponseFrame, ResponseFramer,
};
use posthaste_imap_codec::print::LiteralStyle;
use posthaste_imap_codec::{
    Command, CommandBody, ImapUrl, MailboxUrl, NameEncoding, Numbering, Tag, UrlServer, parse_command,
    parse_criteria, parse_response, print,
};
use posthaste_property::properties;
use proptest::prelude::*;

use crate::{any_command, any_response, any_value};

properties! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn commands((names, command) in any_value::encoding().prop_flat_map(|n| (Just(n), any_command::command(n)))) {
        for style in [LiteralStyle::Sync, LiteralStyle::Minus, LiteralStyle::Plus] {
            let encoded = print::command(&command, names, style);
            prop_assert!(style != LiteralStyle::Plus || encoded.waits.is_empty());
            let bytes = Bytes::from(encoded.bytes.clone());
            let parsed = parse_command(&bytes, names);
            prop_assert_eq!(parsed.as_ref(), Ok(&command), "{}", bytes.escape_ascii());

            // The framer requests `+` exactly where the printer says it waits, and cuts the same
            // command out.
            let (mut framer, mut buffer, mut waits) = (CommandFramer::default(), BytesMut::new(), 0);
            let mut whole = None;
            for piece in encoded.pieces() {
                buffer.extend_from_slice(piece);
                while let Some(frame) = framer.next_frame(&mut buffer) {
                    match frame {
                        CommandFrame::LiteralWanted(wanted) => {
                            waits += usize::from(wanted.sync == LiteralSync::Waits);
                            framer.accept_literal(&wanted);
                        }
                        other => whole = Some(other),
                    }
                }
            }
            prop_assert_eq!(waits, encoded.waits.len());
            prop_assert_eq!(whole, Some(CommandFrame::Command(bytes)));
        }
    }

    #[test]
    fn responses((names, response) in any_value::encoding().prop_flat_map(|n| (Just(n), any_response::response(n)))) {
        let mut bytes = Vec::new();
        print::response(&mut bytes, &response, names);
        let mut buffer = BytesMut::from(&bytes[..]);
        let bytes = Bytes::from(bytes);
        let parsed = parse_response(&bytes, names);
        prop_assert_eq!(parsed.as_ref(), Ok(&response), "{}", bytes.escape_ascii());
        let frame = ResponseFramer::default().next_frame(&mut buffer);
        prop_assert_eq!(frame, Ok(Some(ResponseFrame::Response(bytes))));
    }

    /// RFC 5466 §3.1: a filter has the criteria of a SEARCH.
    #[test]
    fn criteria(charset in any_command::charset(), key in any_command::search_key()) {
        let (numbering, charset, returns, update_items) = (Numbering::Seq, Some(charset), None, Vec::new());
        let args = SearchArgs { numbering, charset, returns, update_items, key: key.clone() };
        let body = CommandBody::Search(args);
        let command = Command { tag: Tag::new("a").unwrap(), body };
        let bytes = print::command(&command, NameEncoding::Utf7, LiteralStyle::Plus).bytes;
        let text = Bytes::from(bytes).slice("a SEARCH ".len()..);
        prop_assert_eq!(parse_criteria(&text), Ok(key), "{}", text.escape_ascii());
    }

    #[test]
    fn urls(url in any_value::imap_url()) {
        let text = url.to_string();
        prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
        prop_assert_eq!(ImapUrl::parse(&text), Ok(url), "{}", text);
    }

    #[test]
    fn urls_of_mailboxes(url in any_value::mailbox_url()) {
        let text = url.to_string();
        prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
        prop_assert_eq!(MailboxUrl::parse(&text), Ok(url), "{}", text);
    }

    #[test]
    fn urls_of_servers(server in any_value::url_server()) {
        let text = server.to_string();
        prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
        prop_assert_eq!(UrlServer::parse(&format!("{text}/")), Ok(server.clone()), "{}", text);
        prop_assert_eq!(UrlServer::parse(&text), Ok(server), "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_of_urls_panic(text in "(imap://|/)?[a-zA-Z%;=./:@+?0-9é-]{0,40}") {
        if let Ok(url) = ImapUrl::parse(&text) {
            prop_assert_eq!(ImapUrl::parse(&url.to_string()), Ok(url));
        }
    }
}
