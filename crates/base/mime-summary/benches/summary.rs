//! The cost of a summary: making one at delivery, and reading one in a listing.
//!
//! `cargo bench -p posthaste-mime-summary`

#![allow(missing_docs, reason = "the macros make public items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use posthaste_mime_summary::{Envelope, FieldMask, SearchKey, Section, Structure, SummaryParts, SummaryRef};

/// A message as lists and people send them: 4 KiB, two parts, ten trace fields.
fn typical() -> Vec<u8> {
    let mut message = String::new();
    for hop in 0..4 {
        message.push_str(&format!(
            "Received: from mx{hop}.example.org (mx{hop}.example.org [192.0.2.{hop}])\r\n\tby mail.example.com with ESMTPS \
             id abcdef{hop}\r\n\tfor <ana@example.com>; Fri, 20 Nov 2026 10:00:0{hop} +0000\r\n"
        ));
    }
    message.push_str(
        "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=one;\r\n\th=from:to:subject:date;\r\n\t\
         bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;\r\n\tb=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n\
         Authentication-Results: mail.example.com; dkim=pass header.d=example.org; spf=pass\r\n\
         Return-Path: <bob@example.org>\r\nDelivered-To: ana@example.com\r\n\
         Date: Fri, 20 Nov 2026 11:00:00 +0100\r\nFrom: =?utf-8?q?Bob_M=C3=BCller?= <bob@example.org>\r\n\
         To: Ana Example <ana@example.com>, \"Carol, of sales\" <carol@example.com>\r\nCc: dave@example.net\r\n\
         Subject: Re: [plans] minutes of the meeting on Thursday\r\nMessage-ID: <20261120110000.GA1234@example.org>\r\n\
         In-Reply-To: <20261119090000.GB77@example.com>\r\n\
         References: <20261118080000.GC1@example.com> <20261119090000.GB77@example.com>\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/alternative; boundary=\"=-=boundary-0001\"\r\nUser-Agent: Mutt/2.2.9\r\n\
         List-Id: <plans.example.org>\r\nX-Own: a small field\r\n\r\n\
         --=-=boundary-0001\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
    );
    for line in 0..20 {
        message.push_str(&format!("Line {line} of the text, with a word or two in it, so =C3=BCber.\r\n"));
    }
    message.push_str("--=-=boundary-0001\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body>\r\n");
    while message.len() < 4050 {
        message.push_str("<p>A line of the same text, but with <b>tags</b> in it.</p>\r\n");
    }
    message.push_str("--=-=boundary-0001--\r\n");
    message.into_bytes()
}

/// Stand-ins for the printed responses, of the usual length.
const PRINTED: [u8; 300] = [b'x'; 300];

fn encode(message: &[u8], structure: &Structure) -> Vec<u8> {
    SummaryParts {
        message,
        structure,
        envelope: &PRINTED,
        repeated: 0..0,
        body: &PRINTED,
        body_structure: &PRINTED,
    }
    .encode()
}

fn delivery(c: &mut Criterion) {
    let message = typical();
    c.bench_function("structure of 4 KiB", |b| b.iter(|| Structure::parse(black_box(&message))));
    let structure = Structure::parse(&message);
    c.bench_function("envelope", |b| {
        b.iter(|| Envelope::of(black_box(&message), structure.fields().iter().copied()));
    });
    c.bench_function("record", |b| b.iter(|| encode(black_box(&message), &structure)));
    let large =
        [message.as_slice(), &b"a line of text that goes on and on and on and on\r\n".repeat(200_000)]
            .concat();
    c.bench_function("structure of 10 MB", |b| b.iter(|| Structure::parse(black_box(&large))));
}

fn listing(c: &mut Criterion) {
    let message = typical();
    let record = encode(&message, &Structure::parse(&message));
    let mask = FieldMask::only(["DATE", "FROM", "TO", "SUBJECT", "MESSAGE-ID"]);
    let mut out = Vec::with_capacity(4096);
    c.bench_function("envelope of a record", |b| {
        b.iter(|| {
            out.clear();
            SummaryRef::new(black_box(&record)).expect("just made").envelope().append_to(&mut out);
        });
    });
    c.bench_function("HEADER.FIELDS of a record", |b| {
        b.iter(|| {
            let summary = SummaryRef::new(black_box(&record)).expect("just made");
            out.clear();
            assert!(!summary.needs_body(&mask));
            let fields = summary.header_fields(&mask);
            fields.append_to(&mut out);
            assert_eq!(out.len(), fields.len());
        });
    });
    let key = SearchKey::new("nowhere to be found");
    c.bench_function("SEARCH SUBJECT in a record", |b| {
        b.iter(|| key.is_in(SummaryRef::new(black_box(&record)).expect("just made").subject_folded()));
    });
    c.bench_function("BODY[2] in a record", |b| {
        b.iter(|| {
            SummaryRef::new(black_box(&record)).expect("just made").locate(black_box(&[2]), Section::Body)
        });
    });
    let summary = SummaryRef::new(&record).expect("just made");
    c.bench_function("SEARCH TEXT in 4 KiB", |b| b.iter(|| key.is_in_text(black_box(&message), &summary)));
}

criterion_group!(benches, delivery, listing);
criterion_main!(benches);
