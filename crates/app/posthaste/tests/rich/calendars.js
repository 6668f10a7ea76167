// The calendars and the card that the server makes of rich mail. ical.js reads them, the parser
// that Thunderbird uses. Argument: a file with a list of them, each with the method that its part
// declares. The first wrong value ends it.
'use strict';
const assert = require('node:assert/strict');
const { readFileSync } = require('node:fs');
const ICAL = require('ical.js');

// A day; or a time on its clock, with the seconds that this clock is ahead of UTC.
function shown(time) {
    return time.isDate ? time.toString() : `${time} ${time.utcOffset()}`;
}

function person(property) {
    const parameters = ['cn', 'role', 'partstat', 'rsvp'].map(name => property.getParameter(name) ?? null);
    return [property.getFirstValue(), ...parameters];
}

// The values of an event that the messages below differ in.
function read(component) {
    const event = new ICAL.Event(component);
    const { uid, summary, location, description, sequence, startDate, endDate, recurrenceId } = event;
    return {
        uid, summary, location, description, sequence,
        status: component.getFirstPropertyValue('status'),
        start: shown(startDate),
        end: shown(endDate),
        id: recurrenceId && shown(recurrenceId),
        organizer: person(component.getFirstProperty('organizer')),
        attendees: event.attendees.map(person),
    };
}

// The first twenty occurrences: begin, end and subject, of changed ones, too.
function occurrences(component) {
    const event = new ICAL.Event(component);
    assert(event.isRecurring() && !event.isRecurrenceException());
    const [iterator, found] = [event.iterator(), []];
    for (let next = iterator.next(); next && found.length < 20; next = iterator.next()) {
        const { startDate, endDate, item } = event.getOccurrenceDetails(next);
        found.push([shown(startDate), shown(endDate), item.summary]);
    }
    return found;
}

const texts = JSON.parse(readFileSync(process.argv.at(-1), 'utf8'));

// The components of the next calendar, which has this method and as many as are asked for.
function components(method, kind, count) {
    const { declared, text } = texts.shift();
    const calendar = new ICAL.Component(ICAL.parse(text));
    // RFC 6047 §2.4: the parameter of the part is the method of the calendar.
    assert.deepEqual([declared, calendar.getFirstPropertyValue('method')], [method, method], text);
    assert.equal(calendar.getFirstPropertyValue('version'), '2.0');
    const all = calendar.getAllSubcomponents(kind);
    assert.equal(all.length, count, text);
    return all;
}

function reads(method, expected) {
    const [event] = components(method, 'vevent', 1);
    assert.deepEqual(read(event), expected);
    return event;
}

const sender = 'mailto:sender@x.example';
const asked = ['NEEDS-ACTION', 'TRUE'];
const [ana, ben] = [['mailto:ana@y.example', 'Ana', 'REQ-PARTICIPANT'], ['mailto:ben@y.example', "Ben 'B'", 'OPT-PARTICIPANT']];
const request = {
    uid: '040000008200E00074C5B7101A82E00800000000' + '07'.repeat(16) + '0400000001020304',
    summary: 'Plans; next, year',
    location: 'Room 1',
    description: 'Bring tea',
    sequence: 2,
    status: 'CONFIRMED',
    start: '2023-11-14T22:13:20Z 0',
    end: '2023-11-14T23:13:20Z 0',
    id: null,
    organizer: [sender, 'Sender', null, null, null],
    attendees: [[...ana, ...asked], [...ben, ...asked]],
};
const cancellation = { ...request, status: 'CANCELLED', attendees: [[...ana, null, null], [...ben, null, null]] };
const answer = participation => ({
    ...request,
    status: null,
    organizer: ['mailto:ana@y.example', 'Ana', null, null, null],
    attendees: [[sender, 'Sender', null, participation, null]],
});

const [alarm] = reads('REQUEST', request).getAllSubcomponents('valarm');
assert.equal(alarm.getFirstPropertyValue('trigger').toSeconds(), -15 * 60);
reads('PUBLISH', { ...request, status: null, attendees: [] });
for (const participation of ['ACCEPTED', 'DECLINED', 'TENTATIVE']) reads('REPLY', answer(participation));
reads('COUNTER', { ...answer('TENTATIVE'), start: '2023-11-15T22:13:20Z 0', end: '2023-11-15T23:13:20Z 0' });
reads('CANCEL', cancellation);
// One occurrence of a series.
const nine = '2023-11-14T08:00:00Z 0';
reads('CANCEL', { ...cancellation, id: nine });
reads('REQUEST', { ...request, id: nine });
reads('REQUEST', { ...request, start: '2023-11-15', end: '2023-11-17' });

// A series on the clock of its organizer: winter, summer, and a day without a meeting, 2024-04-16.
const usual = (day, offset) => [`${day}T09:00:00 ${offset}`, `${day}T10:30:00 ${offset}`, request.summary];
const [start, end] = ['2024-03-05T09:00:00 3600', '2024-03-05T10:30:00 3600'];
const series = reads('REQUEST', { ...request, start, end });
assert.deepEqual(occurrences(series), [
    ...['2024-03-05', '2024-03-07', '2024-03-19', '2024-03-21'].map(day => usual(day, 3600)),
    ...['2024-04-02', '2024-04-04', '2024-04-18', '2024-04-30'].map(day => usual(day, 7200)),
]);
const rule = series.getFirstPropertyValue('rrule');
assert.deepEqual([rule.freq, rule.interval, rule.parts.BYDAY, `${rule.until}`], ['WEEKLY', 2, ['TU', 'TH'], '2024-04-30T08:00:00Z']);
assert.deepEqual(series.getAllProperties('exdate').map(day => shown(day.getFirstValue())), ['2024-04-16T09:00:00 7200']);

// A series, and its occurrence of 2023-11-16, which was moved and has a name of its own.
const times = { start: '2023-11-14T09:00:00 3600', end: '2023-11-14T10:30:00 3600' };
const moved = { start: '2023-11-17T10:00:00 3600', end: '2023-11-17T10:30:00 3600', summary: 'Moved' };
const [whole, one] = components('REQUEST', 'vevent', 2);
assert.deepEqual(read(whole), { ...request, ...times });
assert.deepEqual(read(one), { ...request, ...moved, id: '2023-11-16T09:00:00 3600' });
const [first, last] = ['2023-11-14', '2023-11-28'].map(day => usual(day, 3600));
assert.deepEqual(occurrences(whole), [first, [moved.start, moved.end, moved.summary], last]);

// Its cancellation is one event, with the day that it left (EXDATE) and the new one (RDATE).
assert.deepEqual(occurrences(reads('CANCEL', { ...cancellation, ...times })), [first, usual('2023-11-17', 3600), last]);

// A series of whole days.
const days = reads('REQUEST', { ...request, start: '2023-11-14', end: '2023-11-15' });
assert.deepEqual(occurrences(days).map(([start, end]) => [start, end]), [
    ['2023-11-14', '2023-11-15'],
    ['2023-11-16', '2023-11-17'],
    ['2023-11-28', '2023-11-29'],
]);

// A series on day 30 of each month, and in February on its last day.
const monthly = reads('REQUEST', { ...request, start: '2023-11-30T09:00:00 3600', end: '2023-11-30T10:30:00 3600' });
assert.deepEqual(occurrences(monthly), [
    ...['2023-11-30', '2023-12-30', '2024-01-30', '2024-02-29', '2024-03-30'].map(day => usual(day, 3600)),
    usual('2024-04-30', 7200),
]);

const [task] = components(null, 'vtodo', 1);
const value = name => task.getFirstPropertyValue(name);
assert.deepEqual([value('uid'), value('summary'), value('description')], ['AB01', 'Bake; a cake', 'with nuts']);
assert.deepEqual([shown(value('dtstart')), shown(value('due'))], ['2023-11-15', '2023-11-16']);
assert.deepEqual([value('status'), value('percent-complete')], ['IN-PROCESS', 50]);

const { declared, text } = texts.shift();
const card = new ICAL.Component(ICAL.parse(text));
const field = name => [card.getFirstPropertyValue(name), card.getFirstProperty(name).getParameter('type')];
assert.deepEqual([declared, card.name, card.getFirstPropertyValue('version')], [null, 'vcard', '3.0']);
assert.deepEqual(['fn', 'note', 'n'].map(name => field(name)[0]), ['Ana B', 'notes', ['B', '', '', '', '']]);
assert.deepEqual([field('email'), field('tel')], [['ana@y.example', 'INTERNET'], ['+1 2', ['CELL', 'VOICE']]]);
assert.deepEqual(field('adr'), [['', '', '', 'Z', '', '', ''], 'WORK']);

// An appointment of Outlook, without an id for all calendars.
reads('PUBLISH', {
    uid: '20030523T140000Z-60004',
    summary: 'Sample Summary',
    location: 'Sample Location',
    description: 'Sample description',
    sequence: 0,
    status: null,
    start: '2003-05-23T14:00:00Z 0',
    end: '2003-05-23T15:00:00Z 0',
    id: null,
    organizer: request.organizer,
    attendees: [],
});

assert.equal(texts.length, 0);
console.log('ical.js: done');
