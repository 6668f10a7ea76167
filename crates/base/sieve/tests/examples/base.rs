//! RFC 5228: the language and its actions.

use super::{Example, INBOX, NOTHING, PLAIN};

const COYOTE: &str = "From: coyote@desert.example.org\nTo: roadrunner@acme.example.com\nSubject: I have a present\n\n\
    Look, bird.\n";
const MONEY: &str = "From: youcouldberich!@reply-by-postal-mail.invalid\nTo: rube@landru.example.com\n\
    Subject: $$$ YOU, TOO, CAN BE RICH! $$$\nDate: Fri, 1 Mar 2002 01:02:03 -0500\n\nSend it to all you know.\n";
/// By sender: some mail is discarded, some sent on, some filed.
const CHAIN: &str = "if address :is :domain \"from\" \"desert.example.org\" { discard; }\n\
    elsif header :contains \"subject\" [\"$$$\", \"rich\"] { redirect \"abuse@example.com\"; }\n\
    else { fileinto \"Rest\"; }";

pub(super) const EXAMPLES: &[Example] = &[
    Example::new(
        "5228 §2.3 comments",
        "",
        "if size :over 100K { # this is a comment\n  discard;\n}\n/* and this\n is another; discard; */ keep;",
        PLAIN,
        INBOX,
    ),
    Example::new(
        "5228 §2.4.2 a text over several lines, with a dot of its own",
        "variables",
        "set \"a\" text:\nfirst\n..second\n.\n;\nif string :matches \"${a}\" \"first*.second*\" { discard; }",
        PLAIN,
        NOTHING,
    ),
    Example::new(
        "5228 §2.4.2.4 characters by number",
        "fileinto,encoded-character",
        "fileinto \"a${hex: 24 2D}b${unicode:0041 0042}\";",
        PLAIN,
        &["store a$-bAB"],
    ),
    Example::new(
        "5228 §2.4.2.4 what is no such sequence stays",
        "fileinto,encoded-character",
        "fileinto \"${hex:${hex:30}}-${hex:zz}\";",
        PLAIN,
        &["store ${hex:0}-${hex:zz}"],
    ),
    Example::new(
        "5228 §2.6.2 a tag between",
        "",
        "if header :comparator \"i;octet\" :contains \"subject\" \"HELLO\" { discard; }",
        PLAIN,
        INBOX,
    ),
    Example::new(
        "5228 §2.7.1 wildcards",
        "fileinto",
        "if header :matches \"subject\" \"h?l*o\" { fileinto \"A\"; }\nif header :matches \"subject\" \"h?\" { fileinto \"B\"; }",
        PLAIN,
        &["store A"],
    ),
    Example::new(
        "5228 §2.7.1 a wildcard that means itself",
        "",
        "if header :matches \"subject\" \"\\\\?\\\\*\" { discard; }",
        "From: a@example.org\nSubject: ?*\n\nx\n",
        NOTHING,
    ),
    Example::new(
        "5228 §2.7.4 each header with each key",
        "",
        "if header :contains [\"to\", \"cc\"] [\"me@example.com\", \"you@example.com\"] { discard; }",
        "From: a@example.org\nTo: x@example.com\nCc: you@example.com\n\nx\n",
        NOTHING,
    ),
    Example::new(
        "5228 §2.9 names in any case",
        "",
        "IF Header :CONTAINS \"SUBJECT\" \"hello\" { DisCard; }",
        PLAIN,
        NOTHING,
    ),
    Example::new("5228 §2.10.2 implicit keep", "fileinto", "if false { fileinto \"A\"; }", PLAIN, INBOX),
    Example::new(
        "5228 §2.10.3 the same mailbox twice is one copy",
        "fileinto",
        "fileinto \"A\"; fileinto \"A\"; keep; keep;",
        PLAIN,
        &["store A", "store INBOX"],
    ),
    Example::new("5228 §3.1 the first branch", "fileinto", CHAIN, COYOTE, NOTHING),
    Example::new("5228 §3.1 the second branch", "fileinto", CHAIN, MONEY, &["redirect abuse@example.com"]),
    Example::new("5228 §3.1 the last branch", "fileinto", CHAIN, PLAIN, &["store Rest"]),
    Example::new(
        "5228 §3.3 stop",
        "fileinto",
        "if header :contains \"from\" \"ana\" { fileinto \"A\"; stop; }\nfileinto \"B\";",
        PLAIN,
        &["store A"],
    ),
    Example::new(
        "5228 §4.1 fileinto",
        "fileinto",
        "if header :contains [\"from\"] \"coyote\" { fileinto \"INBOX.harassment\"; }",
        COYOTE,
        &["store INBOX.harassment"],
    ),
    Example::new(
        "5228 §4.2 redirect",
        "",
        "redirect \"bart@example.com\";",
        PLAIN,
        &["redirect bart@example.com"],
    ),
    Example::new("5228 §4.3 keep", "", "if size :under 1M { keep; } else { discard; }", PLAIN, INBOX),
    Example::new(
        "5228 §4.4 discard",
        "",
        "if header :contains [\"from\"] [\"coyote@desert.example.org\"] { discard; }",
        COYOTE,
        NOTHING,
    ),
    Example::new("5228 §4.4 discard beside keep", "", "discard; keep;", PLAIN, INBOX),
    Example::new(
        "5228 §9 a script of a user: a list",
        "fileinto",
        USER,
        "From: x@example.net\nTo: l@example.org\nSender: owner-ietf-mta-filters@imc.org\nSubject: draft\n\nx\n",
        &["store filter"],
    ),
    Example::new("5228 §9 a script of a user: work", "fileinto", USER, WORK, INBOX),
    Example::new("5228 §9 a script of a user: spam", "fileinto", USER, MONEY, &["store spam"]),
    Example::new("5228 §9 a script of a user: the rest", "fileinto", USER, REST, &["store personal"]),
];

const WORK: &str = "From: boss@example.com\nTo: ken@example.com\nSubject: now\n\nx\n";
const REST: &str = "From: x@example.net\nTo: ken@example.com\nSubject: dinner\n\nx\n";
/// A list, work, what is not for the user, and the rest.
const USER: &str = "if header :is \"Sender\" \"owner-ietf-mta-filters@imc.org\" { fileinto \"filter\"; }\n\
    elsif address :domain :is [\"From\", \"To\"] \"nobody.example\" { keep; }\n\
    elsif address :is \"from\" \"boss@example.com\" { keep; }\n\
    elsif anyof (not address :all :contains [\"To\", \"Cc\", \"Bcc\"] \"ken@example.com\",\n\
      header :matches \"subject\" [\"*make*money*fast*\", \"*university*dipl*mas*\"]) { fileinto \"spam\"; }\n\
    else { fileinto \"personal\"; }";
