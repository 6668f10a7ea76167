// node-imap against a server that announces Gmail's extensions: boxes, octets, structures, flags,
// keywords, searches, sorting, threads, copies, moves, IDLE, labels and queries.
// Arguments: port, user, password. Fails at the first difference.
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const Imap = require('node-imap');

// Run from text, the program has no name among its arguments.
const [port, user, password] = process.argv.slice(-3);
const mail = [
    'Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n',
    'Subject: Re: plain\r\nFrom: bo@example.net\r\nReferences: <a@x>\r\nMessage-ID: <b@x>\r\n\r\nx',
    'Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe\r\n',
    'Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b b"\r\n\r\n' +
        '--b b\r\n\r\none\r\n--b b\r\nContent-Type: application/pdf; name="a.pdf"\r\nContent-Transfer-Encoding: base64\r\n' +
        'Content-Disposition: attachment; filename="a.pdf"\r\n\r\nAAECAwD/\r\n--b b--\r\n',
    'Subject: long\r\n\r\n' + ('0123456789'.repeat(7) + '\r\n').repeat(3000),
].map(text => Buffer.from(text, 'latin1'));
const box = 'Prüfung & Co/node';

async function connected() {
    const client = new Imap({ host: '127.0.0.1', port: +port, user, password });
    client.connect();
    await once(client, 'ready');
    return client;
}

// The results of a call with a callback.
function call(client, name, ...parameters) {
    return new Promise((done, failed) => {
        client[name](...parameters, (error, ...results) => (error ? failed(error) : done(results[0])));
    });
}

async function ended(stream) {
    const pieces = [];
    for await (const piece of stream) pieces.push(piece);
    return Buffer.concat(pieces);
}

async function fetched(client, uids, options) {
    const waits = [];
    const fetching = client.fetch(uids, options);
    fetching.on('message', message => {
        const one = { bodies: {} };
        message.on('body', (stream, info) => waits.push(ended(stream).then(octets => (one.bodies[info.which] = octets))));
        waits.push(once(message, 'attributes').then(([attributes]) => Object.assign(one, attributes)));
    });
    await once(fetching, 'end');
    return [...new Set(await Promise.all(waits))].filter(one => one.uid).sort((a, b) => a.uid - b.uid);
}

async function labels(client, uid) {
    return (await fetched(client, uid))[0]['x-gm-labels'];
}

async function main() {
    const client = await connected();
    assert.equal((await call(client, 'getBoxes')).Sent.special_use_attrib, '\\Sent');
    await call(client, 'addBox', box);
    const uids = [];
    for (const text of mail) {
        uids.push(await call(client, 'append', text, { mailbox: box, flags: ['Flagged'] }));
    }
    assert.deepEqual(uids.map(Number), [1, 2, 3, 4, 5]);
    assert.equal((await call(client, 'openBox', box, false)).messages.total, 5);
    const messages = await fetched(client, '1:*', { bodies: ['', 'HEADER.FIELDS (SUBJECT)'], struct: true, envelope: true, size: true });
    assert.equal(messages.length, 5);
    messages.forEach((message, at) => {
        assert.ok(message.bodies[''].equals(mail[at]), `message ${at}`);
        assert.equal(message.size, mail[at].length);
        assert.ok(message.flags.includes('\\Flagged'));
        assert.ok(Math.abs(Date.now() - message.date) < 3600e3);
        assert.ok(/^\d+$/.test(message['x-gm-msgid']) && /^\d+$/.test(message['x-gm-thrid']));
        assert.deepEqual(message['x-gm-labels'], ['\\Starred']);
    });
    assert.equal(messages[0].envelope.from[0].mailbox, 'zoe');
    assert.equal(messages[0]['x-gm-thrid'], messages[1]['x-gm-thrid']);
    assert.equal(messages[3].struct[2][0].disposition.params.filename, 'a.pdf');
    assert.equal(messages[3].bodies['HEADER.FIELDS (SUBJECT)'].toString(), 'Subject: parts\r\n\r\n');

    const search = criteria => call(client, 'search', criteria);
    assert.deepEqual(await search([['SUBJECT', 'eight']]), [3]);
    assert.deepEqual(await search([['BODY', 'grüße']]), [3]);
    assert.deepEqual(await search([['OR', ['SUBJECT', 'long'], ['FROM', 'Zoë']], ['SINCE', '2020-02-01']]), [1, 5]);
    await call(client, 'addFlags', [1, 2], 'Seen');
    await call(client, 'delFlags', 1, 'Flagged');
    await call(client, 'setKeywords', 3, ['$Kept']);
    assert.deepEqual(await search(['SEEN', '!FLAGGED']), [1]);
    assert.deepEqual(await search([['KEYWORD', '$Kept']]), [3]);
    assert.deepEqual(await call(client, 'sort', ['-SIZE'], ['SEEN']), [1, 2]);
    assert.deepEqual((await call(client, 'thread', 'references', ['SEEN'])).flat(9), [1, 2]);

    // Labels of any text, as a program for Gmail writes and searches them.
    await call(client, 'addLabels', [4, 5], ['two words', 'Grüße (ß)', 'a/b']);
    await call(client, 'delLabels', 5, ['a/b', '\\Starred']);
    assert.deepEqual((await labels(client, 4)).sort(), ['Grüße (ß)', '\\Starred', 'a/b', 'two words']);
    assert.deepEqual((await labels(client, 5)).sort(), ['Grüße (ß)', 'two words']);
    await call(client, 'setLabels', 5, ['only this']);
    assert.deepEqual(await labels(client, 5), ['only this']);
    assert.deepEqual(await search([['X-GM-LABELS', '"two words"']]), [4]);
    assert.deepEqual(await search([['X-GM-RAW', 'label:two-words has:attachment']]), [4]);
    assert.deepEqual(await search([['X-GM-RAW', 'filename:pdf OR label:only-this']]), [4, 5]);
    assert.deepEqual(await search([['X-GM-RAW', 'grüße']]), [3]);
    assert.deepEqual(await search([['X-GM-MSGID', messages[1]['x-gm-msgid']]]), [2]);
    await assert.rejects(call(client, 'addLabels', 1, '\\Sent'), /mailbox/);
    await assert.rejects(search([['X-GM-RAW', 'has:drive']]), /has:drive/);

    await call(client, 'copy', [1, 2], 'Archive');
    await call(client, 'move', 3, 'Archive');
    assert.deepEqual(await search(['ALL']), [1, 2, 4, 5]);
    assert.equal((await call(client, 'status', 'Archive')).messages.total, 3);

    // Another session appends, flags and expunges, and this one gets reports while it is idle.
    const other = await connected();
    await call(other, 'openBox', box, false);
    // One after the other: no flags are reported of a message that was expunged.
    const came = once(client, 'mail');
    await call(other, 'append', mail[0], { mailbox: box });
    const [count] = await came;
    const updated = once(client, 'update');
    await call(other, 'addFlags', 4, ['Answered', 'Deleted']);
    await updated;
    const expunged = once(client, 'expunge');
    await call(other, 'expunge', 4);
    const [removed] = await expunged;
    assert.deepEqual([count, removed], [1, 3]);
    other.end();
    assert.deepEqual(await search(['ALL']), [1, 2, 5, 6]);

    await call(client, 'closeBox', false);
    await call(client, 'renameBox', box, `${box} alt`);
    await call(client, 'delBox', `${box} alt`);
    await assert.rejects(call(client, 'openBox', box, false));
    client.end();
    await once(client, 'close');
    console.log('node-imap: done');
}

main().catch(error => {
    console.error(error);
    process.exit(1);
});
