//! Actions of the other RFCs: flags, copies, refusals, replies, edits, parts.

use super::{Example, INBOX, NOTHING, PLAIN};

const PARTS: &str = "From: a@example.org\nTo: ken@example.com\nSubject: parts\nMIME-Version: 1.0\n\
    Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nwords\n--b\n\
    Content-Type: application/x-msdownload; name=\"tool.exe\"\nContent-Disposition: attachment; filename=\"tool.exe\"\n\n\
    MZ\n--b--\n";

pub(super) const EXAMPLES: &[Example] = &[
    Example::new(
        "5232 §3.1 setflag",
        "imap4flags,fileinto",
        "setflag \"\\\\Deleted\"; fileinto \"A\"; setflag \"\"; fileinto \"B\";",
        PLAIN,
        &["store A \\deleted", "store B"],
    ),
    Example::new(
        "5232 §3.2 addflag",
        "imap4flags",
        "addflag \"\\\\Deleted\"; addflag [\"\\\\Answered\", \"MyFlag\"]; addflag \"\\\\Deleted MyFlag\";",
        PLAIN,
        &["store INBOX \\answered \\deleted myflag"],
    ),
    Example::new(
        "5232 §3.3 removeflag",
        "imap4flags",
        "setflag [\"\\\\Deleted\", \"Other\", \"Third\"]; removeflag [\"\\\\Deleted\", \"Third\"]; keep;",
        PLAIN,
        &["store INBOX other"],
    ),
    Example::new(
        "5232 §4 hasflag",
        "imap4flags,fileinto",
        "setflag [\"A\", \"B\"];\nif hasflag :contains [\"b\", \"c\"] { fileinto \"Has\"; }\nif hasflag \"c\" { fileinto \"Not\"; }",
        PLAIN,
        &["store Has a b"],
    ),
    Example::new(
        "5232 §4 hasflag of a variable, counted",
        "imap4flags,variables,relational,comparator-i;ascii-numeric,fileinto",
        "addflag \"mine\" [\"A\", \"B\"];\n\
         if hasflag :count \"ge\" :comparator \"i;ascii-numeric\" \"mine\" \"2\" { fileinto :flags \"${mine}\" \"Has\"; }",
        PLAIN,
        &["store Has a b"],
    ),
    Example::new(
        "5232 §5 :flags",
        "imap4flags,fileinto",
        "setflag \"\\\\Seen\"; fileinto :flags \"\\\\Flagged\" \"A\"; keep :flags [\"\\\\Draft\", \"x\"];",
        PLAIN,
        &["store A \\flagged", "store INBOX \\draft x"],
    ),
    Example::new(
        "3894 §3 copy",
        "copy,fileinto",
        "fileinto :copy \"Archive\"; redirect :copy \"ana@far.example\";",
        PLAIN,
        &["redirect ana@far.example", "store Archive", "store INBOX"],
    ),
    Example::new(
        "5429 §2.2 reject",
        "reject",
        "if header :contains \"from\" \"ana@example.org\" { reject \"I take no mail from you\"; }",
        PLAIN,
        &["reject I take no mail from you"],
    ),
    Example::new(
        "5429 §2.1 ereject",
        "ereject",
        "if size :under 100K { ereject \"too small\"; }",
        PLAIN,
        &["reject too small"],
    )
    .where_pigeonhole_says(&["unknown extension"], "version 0.5.19 has no ereject"),
    Example::new(
        "5230 §4.2 vacation",
        "vacation",
        "if header :contains \"subject\" \"hello\" { vacation :days 23 :addresses [\"ken@example.com\"] \"I am away.\"; }",
        PLAIN,
        &["store INBOX", "vacation"],
    ),
    Example::new(
        "5230 §4.2 vacation with its subject, as MIME",
        "vacation",
        "vacation :subject \"Away\" :handle \"ides\" :mime text:\nContent-Type: text/plain\n\nGone.\n.\n;",
        PLAIN,
        &["store INBOX", "vacation"],
    ),
    Example::new(
        "6131 §2 vacation-seconds",
        "vacation,vacation-seconds",
        "vacation :seconds 1800 \"In a meeting.\";",
        PLAIN,
        &["store INBOX", "vacation"],
    ),
    Example::new(
        "5435 §3 notify",
        "enotify,fileinto,variables",
        "if header :contains \"from\" \"ana@example.org\" {\n\
         notify :importance \"1\" :message \"Ana has written\" \"mailto:0123456789@example.net?subject=mail\";\n\
         fileinto \"Ana\"; }",
        PLAIN,
        &["notify", "store Ana"],
    ),
    Example::new(
        "5293 §4 addheader",
        "editheader,fileinto",
        "addheader \"X-Sieve-Filtered\" \"<kim@example.com>\";\n\
         if header :is \"x-sieve-filtered\" \"<kim@example.com>\" { fileinto \"Seen\"; }",
        PLAIN,
        &["store Seen"],
    ),
    Example::new(
        "5293 §5 deleteheader",
        "editheader,fileinto",
        "deleteheader :contains \"subject\" \"hell\"; if not exists \"subject\" { fileinto \"Gone\"; }",
        PLAIN,
        &["store Gone"],
    ),
    Example::new("5490 §3.2 :create", "mailbox,fileinto", "fileinto :create \"New\";", PLAIN, &["store New"]),
    Example::new(
        "5463 §4 a branch that needs what there is not",
        "ihave,fileinto",
        "if ihave \"vnd.example.none\" { vndtest \"x\"; } else { fileinto \"Else\"; }",
        PLAIN,
        &["store Else"],
    ),
    Example::new(
        "5703 §3 foreverypart",
        "foreverypart,mime,fileinto",
        "foreverypart { if header :mime :param \"filename\" :matches \"Content-Disposition\" \"*.exe\" {\n\
         fileinto \"Programs\"; break; } }",
        PARTS,
        &["store Programs"],
    ),
    Example::new(
        "5703 §4.1 :anychild",
        "mime",
        "if header :mime :anychild :contenttype \"Content-Type\" \"application/x-msdownload\" { discard; }",
        PARTS,
        NOTHING,
    ),
    Example::new(
        "5703 §4.1 the message itself",
        "mime",
        "if header :mime :type \"Content-Type\" \"application\" { discard; }",
        PARTS,
        INBOX,
    ),
    Example::new(
        "5703 §7 extracttext",
        "foreverypart,mime,extracttext,variables,fileinto",
        "foreverypart { if header :mime :subtype \"Content-Type\" \"plain\" { extracttext :first 3 \"a\"; break; } }\n\
         fileinto \"${a}\";",
        PARTS,
        &["store wor"],
    ),
];
