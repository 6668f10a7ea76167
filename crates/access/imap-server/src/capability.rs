//! The server's capabilities, as CAPABILITY names them: RFC 9051 §7.2.2 and the registry of
//! extensions.

use posthaste_directory::sasl::mechanisms;

use crate::session::Session;
use crate::table::State;

/// Sent in every state. LANGUAGE is in the greeting, too (RFC 5255 §3.1). A client should choose
/// its language before it logs in (§3.2).
const ALWAYS: &str =
    "IMAP4rev1 IMAP4rev2 SASL-IR LITERAL+ ID ENABLE IDLE LOGIN-REFERRALS MAILBOX-REFERRALS LANGUAGE";

/// Sent after login only. LITERAL- is left out because RFC 7888 §5 allows only one of the two, and
/// LITERAL+ includes it. STATUS=DELETED has no RFC of its own: it names the item that
/// RFC 9051 §6.3.11 and RFC 9208 §4.1.4 define. SORT=MODSEQ and SORT=UID are sort keys of Cyrus.
/// DIGEST=SHA1 is an item of its FETCH, X-CREATEDMODSEQ one of FETCH and STATUS. PREVIEW=FUZZY
/// and SNIPPET=FUZZY are Dovecot's: the names that PREVIEW had in drafts of RFC 8970. OBJECTID+
/// is of a draft (`object_ids.rs`).
const AFTER_LOGIN: &str = " NAMESPACE CHILDREN UNSELECT UIDPLUS ESEARCH SEARCHRES WITHIN LIST-EXTENDED \
     LIST-STATUS MOVE BINARY SPECIAL-USE CREATE-SPECIAL-USE STATUS=SIZE STATUS=DELETED CONDSTORE QRESYNC \
     MULTIAPPEND CATENATE URL-PARTIAL URLAUTH URLAUTH=BINARY XLIST OBJECTID OBJECTID+ SAVEDATE \
     PREVIEW PREVIEW=FUZZY SNIPPET=FUZZY PARTIAL \
     UIDONLY UIDBATCHES REPLACE INPROGRESS QUOTA QUOTA=RES-STORAGE QUOTA=RES-MESSAGE \
     QUOTA=RES-MAILBOX ACL RIGHTS=texkn LIST-MYRIGHTS \
     UTF8=ACCEPT METADATA LIST-METADATA SORT SORT=DISPLAY SORT=MODSEQ SORT=UID ESORT \
     CONTEXT=SEARCH CONTEXT=SORT SEARCH=FUZZY NOTIFY MULTISEARCH FILTERS DIGEST=SHA1 X-CREATEDMODSEQ \
     I18NLEVEL=1 I18NLEVEL=2 \
     THREAD=ORDEREDSUBJECT THREAD=REFERENCES THREAD=REFS";

/// Bytes of the capabilities after login in most configurations: a text that grows is copied.
const BYTES: usize = 1024;

/// The capabilities of the session's current state, without the word CAPABILITY.
pub(crate) fn text(session: &Session) -> String {
    use std::fmt::Write as _;
    let is_before_login = session.state() == State::NotAuthenticated;
    let mut text = String::with_capacity(if is_before_login { 512 } else { BYTES });
    text.push_str(ALWAYS);
    if is_before_login {
        if session.may_start_tls() {
            text.push_str(" STARTTLS");
        }
        if !session.may_send_passwords() {
            // RFC 9051 §6.2.3
            text.push_str(" LOGINDISABLED");
        }
        for name in mechanisms(&session.service.directory, &session.channel()).names() {
            text.push_str(" AUTH=");
            text.push_str(name);
        }
        return text;
    }
    text.push_str(AFTER_LOGIN);
    if session.service.options.unauthenticate {
        text.push_str(" UNAUTHENTICATE");
    }
    if session.login.as_ref().is_some_and(|login| login.sets_quotas) {
        // RFC 9208 §3.1.2
        text.push_str(" QUOTASET");
    }
    if session.service.options.annotations {
        // RFC 5257 §4.1
        text.push_str(" ANNOTATE-EXPERIMENT-1");
    }
    if session.service.options.gmail {
        text.push_str(" X-GM-EXT-1");
    }
    if session.service.options.jmap_url.is_some() {
        // RFC 9698
        text.push_str(" JMAPACCESS");
    }
    if let Some(scripts) = &session.service.scripts {
        // RFC 6785. Writing to a String cannot fail.
        let _ = write!(text, " IMAPSIEVE={}", scripts.url);
    }
    if let Some(limit) = session.message_limit().capability() {
        text.push_str(&limit);
    }
    // RFC 7889 §3.
    let _ = write!(text, " APPENDLIMIT={}", session.service.options.append_bytes_max);
    if !session.wire.is_compressed() {
        text.push_str(" COMPRESS=DEFLATE");
    }
    text
}
