//! Every page of the formal syntaxes has a generator: for the productions of each RFC, the
//! strategy that makes their values, or their spellings. The round trips and the tests of
//! extension points draw from these strategies.

/// The files of the strategies, and their names.
const FILES: [(&str, &str); 5] = [
    ("any_command", include_str!("any_command.rs")),
    ("any_extension", include_str!("any_extension.rs")),
    ("any_response", include_str!("any_response.rs")),
    ("any_value", include_str!("any_value.rs")),
    ("spellings", include_str!("spellings.rs")),
];

/// RFCs; productions of their formal syntaxes; strategies.
const PAGES: &[(&str, &str, &str)] = &[
    ("2193, 2221", "rlist, rlsub, referral", "any_command::mailbox_body any_response::code"),
    ("2193, 5092", "imapurl of a mailbox", "any_value::mailbox_url"),
    ("2342", "namespace", "any_response::namespaces"),
    ("2971", "id, id-response", "any_value::id_pairs"),
    ("3501", "lsub, search data, recent, unseen", "any_command::mailbox_body any_response::untagged"),
    ("3502", "append-message", "any_command::append_message"),
    ("3516", "literal8, binary, section-binary", "any_command::fetch_item any_response::fetch_value"),
    ("4314", "setacl to myrights, mod-rights", "any_command::acl"),
    ("4314", "acl-data, listrights-data, myrights-data", "any_response::acl any_value::rights"),
    ("4315", "uid expunge, APPENDUID, COPYUID", "any_command::message_body any_response::code"),
    ("4466", "tagged-ext, tagged-ext-label, tagged-ext-val", "any_extension::tagged"),
    ("4467", "genurlauth, resetkey, urlfetch", "any_command::mailbox_body any_command::url_fetch_item"),
    ("4467", "iurlauth, expire, access", "any_value::imap_url"),
    ("4467", "URLMECH, mechanism", "any_response::code any_response::url_mechanism"),
    ("4467, 5524", "genurlauth-data, urlfetch-data", "any_response::untagged any_response::url_data"),
    ("4469", "append-data, cat-part, BADURL, TOOBIG", "any_command::append_message any_response::code"),
    ("4731, 9051 §9", "search-return-opts", "any_command::search_return"),
    ("4731, 9051 §9", "search-return-data, search-correlator", "any_response::esearch"),
    ("4959, 9051 §9", "authenticate, initial-resp, login", "any_command::session_body"),
    ("4978, 5161, 8437", "compress, enable, unauthenticate", "any_command::session_body"),
    ("5032, 8514, 8474", "search-key", "any_command::number_key any_command::date_key"),
    ("5092", "imapurl: iserver, iuserinfo, iauth", "any_value::url_server"),
    ("5092, 5550", "imessagepart, isection, ipartial", "any_value::imap_url"),
    ("5182", "$, SAVE, NOTSAVED", "any_value::sequence_set any_command::search_return"),
    ("5255", "language-cmd, comparator-cmd and data", "any_command::session_body any_response::untagged"),
    ("5255", "namespace-trans", "any_extension::of_namespace"),
    ("5256, 5957", "sort, sort-criteria", "any_command::sort"),
    ("5256", "thread, thread-data", "any_command::thread any_response::threads"),
    (
        "5257",
        "fetch-annotation, entry-match, attrib",
        "any_command::value_attribute any_value::entry_pattern",
    ),
    ("5257", "store-annotation, append", "any_value::value_change"),
    ("5257", "annotation data, ANNOTATE, ANNOTATIONS", "any_response::fetch_value any_response::code"),
    ("5258", "list-select-opts, list-return-opts", "any_command::list any_command::selection"),
    ("5258", "mbox-list-extended, childinfo", "any_response::list_data any_extension::list_item"),
    ("5267", "CONTEXT, UPDATE, cancelupdate", "any_command::search_return any_command::message_body"),
    ("5267, 9394", "PARTIAL, ADDTO, REMOVEFROM", "any_value::page_range any_response::esearch"),
    ("5464", "getmetadata, setmetadata, entry", "any_command::mailbox_body any_value::entry_name"),
    ("5464", "metadata-resp, METADATA", "any_value::annotation any_response::metadata_code"),
    ("5465", "notify, event-group, event, BADEVENT", "any_command::notify any_response::code"),
    ("5465", "modifier-update", "any_command::search_return"),
    ("5465", "oldname-extended-item, the attribute NoAccess", "any_response::list_data"),
    ("5465, 7377", "filter-mailboxes", "any_command::filter"),
    ("5466", "filter-name, UNDEFINED-FILTER", "any_command::text_key any_response::code"),
    ("5530", "resp-text-code", "any_response::code"),
    ("5819, 8440, 9590", "return-option", "any_command::list"),
    ("6154", "create-param, use-attr", "any_command::special_use"),
    ("6203", "FUZZY, RELEVANCY, score", "any_command::search_key any_response::esearch"),
    ("6851, 2177", "move, idle", "any_command::message_body any_command::session_body"),
    ("6855", "append-data, utf8-literal", "any_command::append_message"),
    ("7162", "select-param, qresync, known-uids", "any_command::select_params any_value::known_numbers"),
    ("7162", "fetch-modifier, store-modifier", "any_command::message_body"),
    ("7162", "search-modsequence, MODIFIED, VANISHED", "any_command::number_key any_response::untagged"),
    ("7377", "esearch, one-correlator", "any_command::mailbox_body any_response::esearch"),
    ("7888", "literal, with + and without", "spellings::forms any_value::text"),
    ("7889, 8438, 8474", "status-att", "any_command::status_items any_response::status_value"),
    ("8474", "objectid, EMAILID, THREADID, MAILBOXID", "any_value::object_id any_response::fetch_value"),
    ("8508", "replace", "any_command::message_body"),
    ("8970", "PREVIEW", "any_command::fetch_item any_response::fetch_value"),
    ("9051 §9", "astring, mailbox, list-mailbox", "spellings::forms any_value::mailbox"),
    ("9051 §9", "address, envelope", "any_response::envelope"),
    ("9051 §9", "append, date-time", "any_command::append_message any_value::date_time"),
    ("9051 §9", "body, body-ext-1part, body-ext-mpart", "any_response::structure any_response::tail"),
    ("9051 §9", "body-extension", "any_extension::of_body"),
    ("9051 §9", "capability, tag", "any_value::capability any_value::tag"),
    ("9051 §9", "continue-req, greeting, response, resp-text", "any_response::response any_response::status"),
    (
        "9051 §9",
        "fetch-att, section, partial",
        "any_command::fetch_item any_value::section any_value::partial",
    ),
    ("9051 §9", "flag, flag-perm, mbx-list-flags", "any_value::flag any_response::response_flag"),
    ("9051 §9", "namespace-response-extension", "any_extension::of_namespace"),
    ("9051 §9", "resp-text-code, unknown ones too", "any_response::code"),
    ("9051 §9", "search, search-key", "any_command::search any_command::bare_key any_command::text_key"),
    ("9051 §9", "sequence-set, seq-range, uid-range", "any_value::sequence_set any_value::uid_ranges"),
    ("9051 §9", "status-att-val, unknown ones too", "any_response::status_value any_extension::tagged"),
    ("9051 §9", "words in any case", "spellings::other_case"),
    (
        "9208",
        "setquota, quota-response, quotaroot-response",
        "any_command::mailbox_body any_response::untagged",
    ),
    ("9585, 9738", "INPROGRESS, MESSAGELIMIT", "any_response::code"),
    ("9586", "uidfetch-resp, UIDREQUIRED", "any_response::untagged any_response::code"),
    ("10022", "uidbatches and its response", "any_command::message_body any_response::untagged"),
    (
        "draft-ietf-mailmaint-imap-objectid-bis-06",
        "objectid-compound, select-param, fetch-att, status-att, resp-text-code",
        "any_value::object_ids any_command::select_params any_response::code",
    ),
    ("9698", "getjmapaccess, jmapaccess-data", "any_command::session_body any_response::untagged"),
    ("9738", "UIDAFTER, UIDBEFORE", "any_command::number_key"),
];

#[test]
fn every_page_has_its_strategies() {
    for (page, productions, strategies) in PAGES {
        for strategy in strategies.split(' ') {
            let (file, name) = strategy.split_once("::").expect("a file and a function");
            let text = FILES.iter().find(|(known, _)| *known == file).map(|(_, text)| *text);
            let text = text.unwrap_or_else(|| panic!("{page}: there is no {file}"));
            let is_there =
                text.contains(&format!("\nfn {name}(")) || text.contains(&format!("\npub fn {name}("));
            assert!(is_there, "{page}, {productions}: there is no {strategy}");
        }
    }
}
