-- The first schema. Documents (contracts, links, receipts, refusals, entries) are JSON, whole, as they were signed or
-- hashed: a column beside one is for looking it up, never for making it anew. Times are milliseconds.

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE runners (
    runner_id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    public_key_pem TEXT NOT NULL,
    pool TEXT NOT NULL,
    enrolled_at INTEGER NOT NULL,
    revoked_at INTEGER,
    UNIQUE (public_key_pem, pool)
) WITHOUT ROWID;

CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of intake; one that was removed is not given again
    run_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN (
        'awaiting_approval', 'created', 'claimed', 'provisioning', 'running', 'completed', 'failed', 'cancelled'
    )),
    pool TEXT NOT NULL,
    tier TEXT NOT NULL,
    principal TEXT NOT NULL,
    door TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    policy_hash TEXT NOT NULL,
    contract BLOB NOT NULL,
    contract_hash TEXT NOT NULL UNIQUE,
    requirements BLOB,                    -- the approvals that policy asks for; NULL where it asks for none
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,          -- the contract's
    approval_until INTEGER,               -- when waiting for approvals ends
    owner TEXT,                           -- the process that the run dies with; NULL where it has none
    event_count INTEGER NOT NULL,
    events_head TEXT NOT NULL,
    plane_time INTEGER NOT NULL,          -- the plane's last event: its next one is not dated before
    attempt INTEGER NOT NULL DEFAULT 0,   -- the fencing number: how often the run was claimed
    lease_serial INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    runner_id TEXT REFERENCES runners (runner_id),
    released INTEGER NOT NULL DEFAULT 0,  -- the runner said that it lets the command run
    ending BLOB,                          -- what the runner says the end was: no part of the chain before its receipt
    cancel_actor BLOB,
    failure_message TEXT,
    receipt BLOB
);
CREATE INDEX runs_open ON runs (state, pool, number) WHERE state NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_by_time ON runs (created_at, number);

CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    seq INTEGER NOT NULL,
    link BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;

CREATE TABLE refusals (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    refusal_id TEXT NOT NULL UNIQUE,
    run_id TEXT UNIQUE REFERENCES runs (run_id),  -- NULL where policy denied, so that there was never a run
    ts INTEGER NOT NULL,
    document BLOB NOT NULL
);
CREATE INDEX refusals_by_time ON refusals (ts, number) WHERE run_id IS NULL;

CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    entry BLOB NOT NULL
);

CREATE TABLE journal_head (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    head BLOB NOT NULL
);

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    content BLOB,                         -- NULL where the content is a file
    touched INTEGER NOT NULL              -- the newest run when it was last kept
);

CREATE TABLE uses (                       -- which run, or refusal, names which blob
    hash TEXT NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (hash, user)
) WITHOUT ROWID;

-- How much the files hold, so that nobody has to count them.
CREATE TABLE held (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    file_bytes INTEGER NOT NULL
);
INSERT INTO held VALUES (1, 0);
CREATE TRIGGER blob_file_kept AFTER INSERT ON blobs WHEN NEW.content IS NULL BEGIN
    UPDATE held SET file_bytes = file_bytes + NEW.bytes;
END;
CREATE TRIGGER blob_file_removed AFTER DELETE ON blobs WHEN OLD.content IS NULL BEGIN
    UPDATE held SET file_bytes = file_bytes - OLD.bytes;
END;

CREATE TABLE pruned (                     -- what was removed on purpose; the journal still has its digests
    id TEXT PRIMARY KEY,                  -- of the run, or of the refusal
    contract_hash TEXT,
    proof_digest TEXT NOT NULL,           -- the receipt's, or the refusal's
    ts INTEGER NOT NULL,                  -- when it was taken in
    pruned_at INTEGER NOT NULL
);
