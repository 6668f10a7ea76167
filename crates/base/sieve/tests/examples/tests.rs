//! RFC 5228 §5, and the tests of RFC 5231, RFC 5233, RFC 5173 and RFC 5260.

use super::{Example, INBOX, NOTHING, PLAIN};

const ADDRESSES: &str = "From: \"Tim, the first\" <Tim@Example.com> (a comment)\n\
    To: friends: a@example.org, b@example.net;, ken@example.com\nCc: c@example.com\nX-Priority: 3\nX-Empty:\n\
    Subject: Re: budget\n\nx\n";
const PARTS: &str = "From: a@example.org\nTo: ken@example.com\nSubject: parts\nMIME-Version: 1.0\n\
    Content-Type: multipart/mixed; boundary=outer\n\nA preamble with apricots.\n--outer\nContent-Type: text/plain\n\n\
    Make money today.\n--outer\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: base64\n\n\
    PHA+VGhlIGNvZGVkIHBsdW08L3A+\n--outer\nContent-Type: message/rfc822\n\nFrom: x@example.net\nSubject: inner pear\n\n\
    A grape.\n--outer--\nAn epilogue with cherries.\n";
const TIMES: &str = "Received: from c; Thu, 2 Mar 2000 09:00:00 +0000\nReceived: from b; Wed, 1 Mar 2000 08:00:00 +0000\n\
    Received: from a; Tue, 29 Feb 2000 23:30:00 -0800\nFrom: a@example.org\nTo: ken@example.com\n\
    Date: Tue, 29 Feb 2000 23:05:09 -0730\nX-Tag: one\nX-Tag: two\nX-Tag: three\nSubject: times\n\nx\n";

macro_rules! holds {
    ($section:literal, $require:literal, $test:literal, $message:expr) => {
        Example::new($section, $require, concat!("if ", $test, " { discard; }"), $message, NOTHING)
    };
}
macro_rules! fails {
    ($section:literal, $require:literal, $test:literal, $message:expr) => {
        Example::new($section, $require, concat!("if ", $test, " { discard; }"), $message, INBOX)
    };
}

pub(super) const EXAMPLES: &[Example] = &[
    holds!("5228 §5.1 address", "", "address :is :all \"from\" \"tim@example.com\"", ADDRESSES),
    holds!("5228 §5.1 its domain", "", "address :domain :is \"from\" \"EXAMPLE.COM\"", ADDRESSES),
    holds!("5228 §5.1 one of a group", "", "address :localpart :is [\"to\", \"cc\"] \"b\"", ADDRESSES),
    fails!("5228 §5.1 the display name is none", "", "address :contains \"from\" \"first\"", ADDRESSES),
    holds!("5228 §5.2 allof", "", "allof (true, header :contains \"subject\" \"hello\")", PLAIN),
    fails!("5228 §5.2 allof with one that fails", "", "allof (true, false)", PLAIN),
    holds!("5228 §5.3 anyof", "", "anyof (false, size :under 1G)", PLAIN),
    holds!("5228 §5.4 envelope", "envelope", "envelope :all :is \"from\" \"ana@example.org\"", ADDRESSES),
    fails!(
        "5228 §5.4 the header is another",
        "envelope",
        "envelope :is \"from\" \"tim@example.com\"",
        ADDRESSES
    ),
    holds!("5228 §5.4 its domain", "envelope", "envelope :domain :is \"to\" \"example.com\"", PLAIN),
    holds!("5228 §5.5 exists", "", "not exists [\"from\", \"x-none\"]", PLAIN),
    holds!("5228 §5.5 an empty field exists", "", "exists \"x-empty\"", ADDRESSES),
    fails!("5228 §5.6 false", "", "false", PLAIN),
    holds!("5228 §5.7 a header with its empty value", "", "header :is [\"x-empty\"] [\"\"]", ADDRESSES),
    fails!("5228 §5.7 a header that is not there", "", "header :matches \"x-none\" \"*\"", ADDRESSES),
    holds!("5228 §5.8 not", "", "not header :is \"subject\" \"other\"", PLAIN),
    fails!("5228 §5.9 size", "", "size :over 100K", PLAIN),
    holds!("5228 §5.10 true", "", "true", PLAIN),
    holds!(
        "5231 §5 a number",
        "relational,comparator-i;ascii-numeric",
        "header :value \"ge\" :comparator \"i;ascii-numeric\" \"x-priority\" \"2\"",
        ADDRESSES
    ),
    fails!(
        "5231 §5 a number that is too small",
        "relational,comparator-i;ascii-numeric",
        "header :value \"gt\" :comparator \"i;ascii-numeric\" [\"x-priority\"] [\"12\"]",
        ADDRESSES
    ),
    holds!(
        "5231 §7 recipients are counted",
        "relational,comparator-i;ascii-numeric",
        "address :count \"ge\" :comparator \"i;ascii-numeric\" [\"to\", \"cc\"] [\"4\"]",
        ADDRESSES
    ),
    fails!(
        "5231 §7 fields are counted",
        "relational,comparator-i;ascii-numeric",
        "header :count \"gt\" :comparator \"i;ascii-numeric\" [\"to\", \"cc\", \"bcc\"] \"2\"",
        ADDRESSES
    ),
    holds!("5231 §5 words in their order", "relational", "header :value \"lt\" \"subject\" \"s\"", ADDRESSES),
    holds!("5233 §4 detail", "envelope,subaddress", "envelope :detail \"to\" \"sieve\"", PLAIN),
    holds!("5233 §4 user", "envelope,subaddress", "envelope :user \"to\" \"ken\"", PLAIN),
    fails!("5233 §4 no detail", "subaddress", "address :detail :is \"from\" \"\"", PLAIN),
    holds!("5233 §5 of a header", "subaddress", "address :detail :contains \"to\" \"siev\"", PLAIN),
    holds!("5173 §5.1 raw", "body", "body :raw :contains \"coded\" ", "Subject: x\n\nA coded word.\n"),
    fails!("5173 §5.1 raw does not decode", "body", "body :raw :contains \"plum\"", PARTS),
    holds!("5173 §5.1 raw has the preamble", "body", "body :raw :contains \"apricots\"", PARTS),
    holds!("5173 §5.2 content of a type", "body", "body :content \"text\" :contains \"coded plum\"", PARTS),
    holds!("5173 §5.2 of a subtype", "body", "body :content \"text/plain\" :contains \"money\"", PARTS),
    fails!("5173 §5.2 of another subtype", "body", "body :content \"text/html\" :contains \"money\"", PARTS),
    fails!("5173 §5.2 of no such type", "body", "body :content \"audio/mp3\" :contains \"\"", PARTS),
    holds!(
        "5173 §5.2 a message's header",
        "body",
        "body :content \"message\" :contains \"inner pear\"",
        PARTS
    ),
    holds!("5173 §5.3 text", "body", "body :text :contains \"today\"", PARTS),
    holds!("5260 §4 a date", "date", "date :is \"date\" \"date\" \"2000-03-01\" ", UTC),
    holds!(
        "5260 §4 of its own zone",
        "date,relational",
        "allof (date :originalzone :value \"ge\" \"date\" \"hour\" \"23\", date :originalzone :is \"date\" \"zone\" \"-0730\")",
        TIMES
    ),
    holds!(
        "5260 §4 in a given zone",
        "date",
        "date :zone \"+0100\" :is \"date\" \"std11\" \"Wed, 01 Mar 2000 07:35:09 +0100\"",
        TIMES
    ),
    holds!("5260 §4 the day of the week", "date", "date :originalzone :is \"date\" \"weekday\" \"2\"", TIMES),
    holds!(
        "5260 §4 the day of Julian",
        "date",
        "date :zone \"+0000\" :is \"date\" \"julian\" \"51604\"",
        TIMES
    ),
    holds!(
        "5260 §4 in ISO 8601",
        "date",
        "date :originalzone :is \"date\" \"iso8601\" \"2000-02-29T23:05:09-07:30\"",
        TIMES
    ),
    fails!("5260 §4 a field without a date", "date", "date :matches \"subject\" \"year\" \"*\"", TIMES),
    holds!("5260 §5 now", "date,relational", "currentdate :value \"ge\" \"year\" \"2000\"", PLAIN),
    holds!("5260 §6 the first", "index", "header :index 1 :is \"x-tag\" \"one\"", TIMES),
    holds!("5260 §6 the last but one", "index", "header :index 2 :last :is \"x-tag\" \"two\"", TIMES),
    fails!("5260 §6 beyond", "index", "header :index 4 :matches \"x-tag\" \"*\"", TIMES),
    holds!(
        "5260 §6 the date of the newest hop",
        "date,index",
        "date :index 1 :zone \"+0000\" :is \"received\" \"day\" \"02\"",
        TIMES
    ),
    holds!(
        "5183 §4 an unknown item",
        "environment",
        "not environment :matches \"vnd.example.none\" \"*\"",
        PLAIN
    ),
    holds!("5463 §4 what there is", "ihave", "ihave [\"fileinto\", \"envelope\"]", PLAIN),
    fails!("5463 §4 what there is not", "ihave", "ihave [\"fileinto\", \"vnd.example.none\"]", PLAIN),
    holds!("7352 §3 the first time", "duplicate", "not duplicate", PLAIN),
];

const UTC: &str = "From: a@example.org\nDate: Wed, 1 Mar 2000 10:00:00 +0000\n\nx\n";
