//! What an extension may add to a response is passed over where it is unknown, and everything
//! else is read: RFC 9051 §9 and RFC 4466 §2 have a place for it in each of these responses.

use bytes::{Bytes, BytesMut};
use posthaste_imap_codec::command::ListSelection;
use posthaste_imap_codec::framing::{ResponseFrame, ResponseFramer};
use posthaste_imap_codec::response::*;
use posthaste_imap_codec::{
    AclData, AnnotationSupport, MailboxArg, NameEncoding, Response, parse_response, print,
};
use posthaste_mail_model::SeqNum;
use posthaste_property::properties;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{any_extension, any_response, any_value};

const NAMES: NameEncoding = NameEncoding::Utf7;

fn printed(print: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    print(&mut out);
    out
}

/// The data is one response, and means this.
fn means(data: &[u8], wanted: Untagged) -> Result<(), TestCaseError> {
    let line = Bytes::from([&b"* "[..], data, b"\r\n"].concat());
    let frame = ResponseFramer::default().next_frame(&mut BytesMut::from(&line[..]));
    prop_assert_eq!(frame, Ok(Some(ResponseFrame::Response(line.clone()))));
    let wanted = Ok(Response::Data(wanted));
    prop_assert_eq!(parse_response(&line, NAMES), wanted, "{}", line.escape_ascii());
    Ok(())
}

/// A namespace, and its extensions as they are sent.
type Extended = (Namespace, Vec<Vec<u8>>);

/// A namespace with extensions, as it is sent.
fn namespace((one, new): &Extended) -> Vec<u8> {
    let prefix = one.prefix.text().unwrap();
    let separator = one.separator.map_or("NIL".to_owned(), |c| format!("\"{c}\""));
    let mut out = format!("(\"{prefix}\" {separator}").into_bytes();
    for extension in new {
        out.push(b' ');
        out.extend_from_slice(extension);
    }
    out.push(b')');
    out
}

fn namespaces() -> BoxedStrategy<Vec<Extended>> {
    let separator = option::of(prop::sample::select(vec!['/', '.', '^']));
    let one = ("[a-zA-Z/. ]{0,8}", separator).prop_map(|(prefix, separator)| {
        let prefix = MailboxArg::from_text(&prefix);
        Namespace { prefix, separator }
    });
    vec((one, vec(any_extension::of_namespace(), 0..3)), 0..3).boxed()
}

/// A structure in which every part has these extensions, as it is sent.
fn structure(of: &BodyStructure<'static>, new: &[u8]) -> Vec<u8> {
    let whole = printed(|out| print::body_structure(out, of));
    let plain = |part: &BodyStructure<'static>| printed(|out| print::body_structure(out, part));
    // Where nested structures begin, and how they are sent without extensions and with them.
    let (at, without, with) = match of {
        BodyStructure::Multi(multi) => {
            let without = multi.parts.iter().flat_map(plain).collect::<Vec<u8>>();
            let with = multi.parts.iter().flat_map(|part| structure(part, new)).collect::<Vec<u8>>();
            (1, without, with)
        }
        BodyStructure::Single(single) => match &single.kind {
            PartKind::Message { envelope, body, .. } => {
                let mut basic = (**single).clone();
                basic.kind = PartKind::Basic;
                let basic = BodyStructure::Single(Box::new(basic));
                // `(basic envelope body …)`: BODY prints `(basic)`.
                let basic = printed(|out| print::body(out, &basic)).len() - 1;
                let envelope = printed(|out| _ = print::envelope(out, envelope)).len();
                (basic + 1 + envelope + 1, plain(body), structure(body, new))
            }
            _ => (1, Vec::new(), Vec::new()),
        },
    };
    let rest = whole[at..whole.len() - 1].strip_prefix(&without[..]).expect("the nested structures");
    [&whole[..at], &with, rest, b" ", new, b")"].concat()
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// RFC 9051 §9, status-att-val.
    #[test]
    fn items_of_status(
        known in vec(any_response::status_value(), 0..4),
        new in vec((any::<Index>(), any_extension::tagged()), 1..4),
    ) {
        let mut items: Vec<_> =
            known.iter().map(|item| printed(|out| print::status_value(out, item))).collect();
        for (at, item) in new {
            items.insert(at.index(items.len() + 1), item);
        }
        let data = [&b"STATUS INBOX ("[..], &items.join(&b' '), b")"].concat();
        means(&data, Untagged::Status { mailbox: MailboxArg::from_text("INBOX"), items: known })?;
    }

    /// RFC 9051 §9, search-ret-data-ext: before what is known, and after it.
    #[test]
    fn data_of_esearch(
        known in any_response::esearch(NAMES),
        (first, last) in (any_extension::tagged(), any_extension::tagged()),
    ) {
        let begin = printed(|out| print::esearch_begin(out, &known, NAMES));
        let whole = printed(|out| print::esearch(out, &known, NAMES));
        let rest = whole.strip_prefix(&begin[..]).expect("the beginning");
        means(&[&begin[..], b" ", &first, rest, b" ", &last].concat(), Untagged::Esearch(known))?;
    }

    /// RFC 9051 §9, mbox-list-extended-item.
    #[test]
    fn data_of_list(
        known in any_response::list_data(NAMES),
        new in vec(any_extension::list_item(), 1..4),
    ) {
        let mut data = printed(|out| print::list_data(out, "LIST", &known, NAMES));
        if known.child_info == ListSelection::default() && known.old_name.is_none() {
            data.extend_from_slice(b" (");
        } else {
            prop_assert_eq!(data.pop(), Some(b')'));
            data.push(b' ');
        }
        data.extend(new.join(&b' '));
        data.push(b')');
        means(&data, Untagged::List(known))?;
    }

    /// RFC 9051 §9, namespace-response-extension.
    #[test]
    fn extensions_of_namespaces(kinds in prop::array::uniform3(namespaces())) {
        let mut data = b"NAMESPACE".to_vec();
        for kind in &kinds {
            data.extend_from_slice(if kind.is_empty() { b" NIL" } else { b" (" });
            data.extend(kind.iter().flat_map(namespace));
            data.extend_from_slice(if kind.is_empty() { b"" } else { b")" });
        }
        let [personal, other, shared] = kinds.map(|kind| kind.into_iter().map(|(one, _)| one).collect());
        means(&data, Untagged::Namespace(Namespaces { personal, other, shared }))?;
    }

    /// RFC 9051 §9, body-extension: of each part, and of what contains it.
    #[test]
    fn extensions_of_structures(
        known in any_response::structure(true),
        new in vec(any_extension::of_body(), 1..4),
    ) {
        let text = structure(&known, &new.join(&b' '));
        let data = [&b"1 FETCH (BODYSTRUCTURE "[..], &text, b")"].concat();
        let items = vec![FetchValue::BodyStructure(known)];
        means(&data, Untagged::Fetch { seq: SeqNum::MIN, items })?;
    }

    /// RFC 4314 §7: rights that are unknown, and digits, which the formal syntax allows.
    #[test]
    fn rights_of_others(rights in any_value::rights(), new in "[0-9bfghjmoquvyz]{1,5}") {
        let mailbox = MailboxArg::from_text("INBOX");
        let data = format!("MYRIGHTS INBOX {rights}{new}");
        means(data.as_bytes(), Untagged::Acl(AclData::MyRights { mailbox, rights }))?;
    }

    /// RFC 5257 §5, NOPRIVATE, which we pass over.
    #[test]
    fn servers_without_private_annotations(octets in 1_u32..) {
        let line = Bytes::from(format!("* OK [ANNOTATIONS {octets} NOPRIVATE] x\r\n"));
        let code = Some(Code::Annotations(AnnotationSupport::Octets(octets)));
        let status = Status { tag: None, kind: StatusKind::Ok, code, text: "x".into() };
        prop_assert_eq!(parse_response(&line, NAMES), Ok(Response::Status(status)));
    }
}
