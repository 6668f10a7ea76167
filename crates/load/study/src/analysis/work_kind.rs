//! The kind of work that a function does, by the names of its library and of the function.
//!
//! A Rust function's kind is that of the crate in which its path begins. In other servers it is
//! that of the library, and within it of the beginning of the function's name. A function that no
//! rule knows has no kind: it is not guessed.

use posthaste_load_results::SampledFunction;

/// The purposes for which a server spends CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// TLS, and cryptography of any use.
    Tls,
    /// Reading and writing of messages, commands and responses.
    Parsing,
    /// Mailboxes, their indexes, and files of mail.
    Storage,
    /// The index for searches: its words, and where they are.
    SearchIndex,
    /// Sessions and commands of IMAP, POP3, LMTP.
    Protocol,
    /// `malloc` and its kind.
    Allocation,
    /// Event loops, buffers, strings, the C library.
    Runtime,
    /// All other work with a name: logins, delivery, logs.
    Other,
    /// The kernel.
    Kernel,
    /// A function that no rule knows.
    Unknown,
}

impl WorkKind {
    /// All kinds of work, in the order of the table, with their names.
    pub(super) const ALL: [(Self, &str); 10] = [
        (Self::Parsing, "parsing of text"),
        (Self::Tls, "TLS and cryptography"),
        (Self::Storage, "storage"),
        (Self::SearchIndex, "search index"),
        (Self::Protocol, "IMAP and other sessions"),
        (Self::Allocation, "memory allocation"),
        (Self::Runtime, "event loop, buffers, C library"),
        (Self::Other, "other"),
        (Self::Kernel, "kernel"),
        (Self::Unknown, "not classified"),
    ];

    /// The kind of a sampled function.
    pub(super) fn of(sampled: &SampledFunction) -> Self {
        if sampled.kernel || sampled.object.starts_with("[kernel") || sampled.object == "[vdso]" {
            return Self::Kernel;
        }
        let function = path(&sampled.function);
        if begins(function, ALLOCATION) {
            return Self::Allocation;
        }
        let of_crate = crate_of(function).and_then(|name| {
            let known = CRATES.iter().find(|(prefix, _)| name.starts_with(prefix));
            known.map(|(_, kind)| *kind)
        });
        let by_rule = || {
            let fits =
                |rule: &&Rule| begins(&sampled.object, rule.objects) && begins(function, rule.functions);
            RULES.iter().find(fits).map_or(Self::Unknown, |rule| rule.kind)
        };
        of_crate.unwrap_or_else(by_rule)
    }
}

/// Whether a name begins with one of these words, or is one that ends in `$`.
fn begins(name: &str, words: &str) -> bool {
    let fits = |word: &str| match word.strip_suffix('$') {
        Some(whole) => name == whole,
        None => name.starts_with(word),
    };
    words == ANY || words.split_ascii_whitespace().any(fits)
}

/// A path without what is before its first name: `<&mut a::B as c::D>::e` begins with `a`.
fn path(function: &str) -> &str {
    let mut rest = function;
    loop {
        let inner = rest.trim_start_matches(['<', '&', '*', '(', '[', ' ']);
        let inner = ["mut ", "const ", "dyn "].iter().find_map(|w| inner.strip_prefix(w)).unwrap_or(inner);
        if inner.len() == rest.len() {
            return rest;
        }
        rest = inner;
    }
}

/// The crate of a Rust function, by its path or by its mangled name.
fn crate_of(path: &str) -> Option<&str> {
    if let Some(mangled) = path.strip_prefix("_R") {
        // A crate's root is `C`, a disambiguator `s…_`, and the name after its length.
        return counted(mangled.split_once("Cs")?.1.split_once('_')?.1);
    }
    if let Some(mangled) = path.strip_prefix("_ZN") {
        // The name of an implementation is its path, escaped: `_$LT$a..B$u20$as$u20$c..D$GT$`.
        let first = counted(mangled)?.split("..").next()?;
        return first.rsplit(['$', ' ']).next();
    }
    let (name, _) = path.split_once("::")?;
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some(name)
}

/// `5named…`: as many bytes as the number says. One `_` may be between them.
fn counted(text: &str) -> Option<&str> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (length, rest) = text.split_at(digits);
    rest.strip_prefix('_').unwrap_or(rest).get(..length.parse().ok()?)
}

/// Functions that allocate, in any library. First the C library and Rust, then Dovecot, then Cyrus.
const ALLOCATION: &str = "malloc __libc_malloc free$ cfree __libc_free calloc realloc _int_malloc _int_free \
    _int_realloc _int_memalign unlink_chunk sysmalloc systrim tcache_ aligned_alloc \
    posix_memalign arena_get __rust_alloc __rust_dealloc __rust_realloc __rustc::__r __rdl_ \
    alloc::alloc:: alloc::raw_vec:: mi_ _mi_ je_ t_malloc t_push t_pop t_buffer t_try_realloc \
    p_malloc p_realloc pool_ i_malloc i_free i_realloc mem_block data_stack mempool_ xmalloc \
    xzmalloc xcalloc xrealloc xstrdup mpool_";

/// Crates by the beginning of their names; the first that fits counts.
const CRATES: &[(&str, WorkKind)] = &[
    ("rustls", WorkKind::Tls),
    ("tokio_rustls", WorkKind::Tls),
    ("webpki", WorkKind::Tls),
    ("aws_lc", WorkKind::Tls),
    ("ring", WorkKind::Tls),
    ("posthaste_imap_codec", WorkKind::Parsing),
    ("posthaste_mime_summary", WorkKind::Parsing),
    ("posthaste_mail_model", WorkKind::Parsing),
    ("posthaste_sieve", WorkKind::Parsing),
    ("posthaste_tnef", WorkKind::Parsing),
    ("encoding_rs", WorkKind::Parsing),
    ("memchr", WorkKind::Parsing),
    ("posthaste_store", WorkKind::Storage),
    ("posthaste_search_index", WorkKind::SearchIndex),
    ("posthaste_indexing", WorkKind::SearchIndex),
    ("heed", WorkKind::Storage),
    ("lmdb", WorkKind::Storage),
    ("crc32c", WorkKind::Storage),
    ("zstd", WorkKind::Storage),
    ("scylla", WorkKind::Storage),
    ("posthaste_imap_server", WorkKind::Protocol),
    ("posthaste_pop3_server", WorkKind::Protocol),
    ("posthaste_smtp", WorkKind::Protocol),
    ("posthaste_managesieve_server", WorkKind::Protocol),
    ("posthaste_net", WorkKind::Protocol),
    ("posthaste", WorkKind::Other),
    ("argon2", WorkKind::Other),
    ("blake2", WorkKind::Other),
    ("sha2", WorkKind::Other),
    ("pbkdf2", WorkKind::Other),
    ("hmac", WorkKind::Other),
    ("tracing", WorkKind::Other),
    ("tokio", WorkKind::Runtime),
    ("mio", WorkKind::Runtime),
    ("futures", WorkKind::Runtime),
    ("bytes", WorkKind::Runtime),
    ("parking_lot", WorkKind::Runtime),
    ("crossbeam", WorkKind::Runtime),
    ("hashbrown", WorkKind::Runtime),
    ("moka", WorkKind::Runtime),
    ("arc_swap", WorkKind::Runtime),
    ("socket2", WorkKind::Runtime),
    ("core", WorkKind::Runtime),
    ("alloc", WorkKind::Runtime),
    ("std", WorkKind::Runtime),
];

/// Functions of libraries: both names begin with one of the words.
struct Rule {
    objects: &'static str,
    functions: &'static str,
    kind: WorkKind,
}

const fn rule(objects: &'static str, functions: &'static str, kind: WorkKind) -> Rule {
    Rule { objects, functions, kind }
}

/// Any name.
const ANY: &str = "*";
/// Programs and libraries of Dovecot that only execute commands.
const DOVECOT_SESSIONS: &str =
    "imap$ imap-login imap-hibernate pop3$ pop3-login lmtp$ submission$ libdovecot-login";
const CYRUS: &str = "libcyrus imapd pop3d lmtpd";

/// The first that fits counts.
const RULES: &[Rule] = &[
    // Whole libraries of the system.
    rule("libssl libcrypto libgnutls libnettle libhogweed libgcrypt", ANY, WorkKind::Tls),
    rule("libdcrypt couriertls libcouriertls", ANY, WorkKind::Tls),
    rule("libdb- libgdbm liblmdb libsqlite3", ANY, WorkKind::Storage),
    rule("libxapian", ANY, WorkKind::SearchIndex),
    rule("libicu libpcre libcourier-unicode", ANY, WorkKind::Parsing),
    rule("libsasl libcrypt. libpam libz. libzstd liblz4 libbz2 libjansson", ANY, WorkKind::Other),
    rule("libc. libc- libm. libpthread ld-linux libgcc_s libstdc++", ANY, WorkKind::Runtime),
    // C within Posthaste's binary.
    rule(ANY, "mdb_ ZSTD_ HUF_ FSE_", WorkKind::Storage),
    rule(ANY, "aws_lc_ ring_core_", WorkKind::Tls),
    rule("posthaste", "mem __mem", WorkKind::Runtime),
    // Dovecot.
    rule(
        "libdovecot",
        "message_ index_mail_parse imap_envelope imap_bodystructure imap_parser imap_arg \
            imap_quote imap_append_ imap_utf7 imap_id rfc822_ rfc2231 quoted_printable qp_ \
            base64_ charset_ uni_ parse_ i_stream_create_header_filter header_filter \
            i_stream_header_filter i_stream_create_crlf i_stream_crlf i_stream_create_dot",
        WorkKind::Parsing,
    ),
    rule("libdovecot-storage", ANY, WorkKind::Storage),
    rule("libdovecot-fts", ANY, WorkKind::SearchIndex),
    rule("libdovecot.so", "mail_ mbox_ dict_ fs_ file_lock file_dotlock nfs_", WorkKind::Storage),
    rule("libdovecot.so", "ssl_ dcrypt_ sha1 sha256 sha384 sha512 sha3 md4 md5 hmac", WorkKind::Tls),
    rule("libdovecot.so", "auth_ dsasl_ anvil_ stats_ event_ smtp_", WorkKind::Other),
    rule(
        "libdovecot.so",
        "io_ ioloop i_ o_ istream ostream stream_ iostream buffer_ str_ t_str p_str array_ \
            hash_ hash2_ timeout_ net_ fd_ file_",
        WorkKind::Runtime,
    ),
    rule(
        "libdovecot.so",
        "lib_ seq_ seqset aqueue priorityq connection_ master_ memarea mem var_ settings_ strcase \
            strfastcase dec2str bsearch numpack crc32 guid hex process_ child_",
        WorkKind::Runtime,
    ),
    rule(DOVECOT_SESSIONS, ANY, WorkKind::Protocol),
    // Cyrus. Its `imapd` has functions without names beside the commands.
    rule(
        CYRUS,
        "message_parse message_write message_fetch message_read message_header \
            message_foreach parse_ parseaddr rfc822 rfc5322 rfc2047 charset_ mime_ imparse \
            getastring getword getxstring global_mime",
        WorkKind::Parsing,
    ),
    rule(
        CYRUS,
        "mailbox_ mboxlist_ mboxname_ mbname_ mbentry_ append_ quota_ seen_ cyrusdb_ cache_ \
            sync_ conversation statuscache_ user_ annotat dlist_",
        WorkKind::Storage,
    ),
    rule(
        CYRUS,
        "twoskip skiplist map_ mappedfile_ lock_ retry_ crc32 message_ bsearch_ find_loc relocate \
            mycommit myfetch myforeach mystore",
        WorkKind::Storage,
    ),
    rule(CYRUS, "tls_", WorkKind::Tls),
    rule(CYRUS, "index_ cmd_ cmdloop imap_ search_ seqset_ fetch list", WorkKind::Protocol),
    rule(CYRUS, "config_ libcyrus_config saslserver proc_ telemetry xsyslog", WorkKind::Other),
    rule(CYRUS, "prot_ buf_ strarray_ ptrarray_ hash_ strhash bv_", WorkKind::Runtime),
    // Courier.
    rule("imapd pop3d", "rfc2045 rfc822 unicode_", WorkKind::Parsing),
    rule("imapd pop3d", "maildir", WorkKind::Storage),
    rule("libcourierauth authdaemond couriertcpd", ANY, WorkKind::Other),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(object: &str, function: &str) -> WorkKind {
        let sampled = SampledFunction {
            object: object.into(),
            function: function.into(),
            ..SampledFunction::default()
        };
        WorkKind::of(&sampled)
    }

    #[test]
    fn rust_functions_are_of_the_crate_in_which_their_path_begins() {
        for (function, expected) in [
            ("rustls::conn::ConnectionCommon<Data>::process_new_packets", WorkKind::Tls),
            ("tokio_rustls::common::Stream<IO,C>::write_io", WorkKind::Tls),
            ("aws_lc_0_47_0_aes_gcm_enc_update_vaes_avx2", WorkKind::Tls),
            ("posthaste_imap_codec::command::parse::command", WorkKind::Parsing),
            ("<posthaste_store::view::Rows as core::iter::Iterator>::next", WorkKind::Storage),
            ("<&mut posthaste_store_lmdb::Reader as posthaste_store::Engine>::read", WorkKind::Storage),
            ("mdb_page_search", WorkKind::Storage),
            ("posthaste_search_index::words::Words::next", WorkKind::SearchIndex),
            ("posthaste_indexing::task::run::{{closure}}", WorkKind::SearchIndex),
            ("posthaste_imap_server::command::fetch::run::{{closure}}", WorkKind::Protocol),
            ("posthaste_delivery::summarize::summary", WorkKind::Other),
            ("tokio::runtime::task::raw::poll<posthaste_net::Session>", WorkKind::Runtime),
            ("core::ptr::drop_in_place<alloc::vec::Vec<u8>>", WorkKind::Runtime),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", WorkKind::Allocation),
            ("__rustc::__rust_alloc", WorkKind::Allocation),
            ("some_crate::some_function", WorkKind::Unknown),
            ("0x00000000000a1b2c", WorkKind::Unknown),
            ("main", WorkKind::Unknown),
        ] {
            assert_eq!(kind("posthaste", function), expected, "{function}");
        }
    }

    #[test]
    fn mangled_names_have_their_crate_in_them() {
        for (function, expected) in [
            ("_ZN20posthaste_imap_codec5parse4atom17h0123456789abcdefE", WorkKind::Parsing),
            (
                "_ZN68_$LT$posthaste_store..view..Rows$u20$as$u20$core..iter..Iterator$GT$4next17h0123456789abcdefE",
                WorkKind::Storage,
            ),
            ("_ZN34_$LT$$RF$posthaste_store..Rows$GT$3lenE", WorkKind::Storage),
            ("_RNvMNtCs4fqI2P2rA04_20posthaste_imap_codec5parse6Parser4atom", WorkKind::Parsing),
            (
                "_RNvXs_NtCs1234_15posthaste_storeNtB4_4RowsNtNtCs5678_4core4iter8Iterator4next",
                WorkKind::Storage,
            ),
        ] {
            assert_eq!(kind("posthaste", function), expected, "{function}");
        }
        // Names that end too early are nothing.
        for wrong in ["_R", "_RNvCs", "_RNvCs1_99x", "_ZN", "_ZN99x"] {
            assert_eq!(kind("posthaste", wrong), WorkKind::Unknown, "{wrong}");
        }
    }

    #[test]
    fn functions_of_other_servers_are_known_by_their_library() {
        for (object, function, expected) in [
            ("libdovecot-storage.so.0.0.0", "index_mail_parse_header", WorkKind::Parsing),
            ("libdovecot-storage.so.0.0.0", "mail_index_map_lookup_seq_range", WorkKind::Storage),
            ("libdovecot-storage.so.0.0.0", "0x000000000001234", WorkKind::Storage),
            ("libdovecot-fts.so.0.0.0", "0x000000000001234", WorkKind::SearchIndex),
            ("libdovecot.so.0.0.0", "message_parse_header_next", WorkKind::Parsing),
            ("libdovecot.so.0.0.0", "io_loop_handler_run", WorkKind::Runtime),
            ("libdovecot.so.0.0.0", "pool_data_stack_realloc", WorkKind::Allocation),
            ("libdovecot.so.0.0.0", "0x000000000001234", WorkKind::Unknown),
            ("imap", "cmd_fetch", WorkKind::Protocol),
            ("imap-login", "0x000000000001234", WorkKind::Protocol),
            ("libssl_iostream_openssl.so", "openssl_iostream_bio_sync", WorkKind::Tls),
            ("libcyrus_imap.so.0.0.0", "index_fetchreply", WorkKind::Protocol),
            ("libcyrus_imap.so.0.0.0", "mailbox_read_index_record", WorkKind::Storage),
            ("libcyrus_imap.so.0.0.0", "message_parse_body", WorkKind::Parsing),
            ("libcyrus_min.so.0.0.0", "strarray_append", WorkKind::Runtime),
            ("imapd", "0x000000000001234", WorkKind::Unknown),
            ("pop3d", "0x000000000001234", WorkKind::Unknown),
            ("libc.so.6", "__memmove_avx_unaligned_erms", WorkKind::Runtime),
            ("libc.so.6", "_int_malloc", WorkKind::Allocation),
            ("libcrypto.so.3", "0x000000000001234", WorkKind::Tls),
            ("[unknown]", "0x000000000001234", WorkKind::Unknown),
        ] {
            assert_eq!(kind(object, function), expected, "{object} {function}");
        }
        let kernel = SampledFunction { kernel: true, object: "[ext4]".into(), ..SampledFunction::default() };
        assert_eq!(WorkKind::of(&kernel), WorkKind::Kernel);
    }
}
