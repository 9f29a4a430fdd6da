-- What a plane that serves others needs: who may ask, who may enrol, whose a blob is, what a run prints while it runs,
-- what came too late, and whose turn it is. Tokens are kept as digests only.

CREATE TABLE principals (
    name TEXT PRIMARY KEY,                -- the identity in contracts and approvals; never given to another
    principal_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE enroll_tokens (
    token_hash TEXT PRIMARY KEY,
    pool TEXT,                            -- NULL where any pool will do
    expires_at INTEGER NOT NULL,
    used_by TEXT                          -- the runner; NULL while it was not used
) WITHOUT ROWID;

ALTER TABLE runners ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runners ADD COLUMN tiers TEXT;                      -- as it last said; NULL where it never did
ALTER TABLE runners ADD COLUMN last_seen_at INTEGER;
ALTER TABLE runners ADD COLUMN drain INTEGER NOT NULL DEFAULT 0;

CREATE TABLE blob_owners (                -- who brought a blob: a principal by name, or a run by `run:ID`
    hash TEXT NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY (hash, owner)
) WITHOUT ROWID;
CREATE INDEX blobs_of ON blob_owners (owner);
ALTER TABLE blobs ADD COLUMN touched_at INTEGER NOT NULL DEFAULT 0;  -- seconds since 1970, when it was last kept
CREATE TRIGGER blob_unowned AFTER DELETE ON blobs BEGIN
    DELETE FROM blob_owners WHERE hash = OLD.hash;
END;
CREATE INDEX uses_by_user ON uses (user);

CREATE TABLE live (                       -- what a run at work has printed lately; gone when it has ended
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    stream TEXT NOT NULL,
    start INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run_id, stream, start)
);

CREATE TABLE attachments (                -- what came too late: kept, and changes nothing
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    runner_id TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    document BLOB NOT NULL,
    PRIMARY KEY (run_id, attempt)
) WITHOUT ROWID;

-- Whose turn it is: a run gets its turn at intake, behind the others of its requester and not before the pool's last.
ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
CREATE TABLE turns (
    pool TEXT PRIMARY KEY,
    turn INTEGER NOT NULL                 -- of the run that was claimed last
) WITHOUT ROWID;
CREATE INDEX runs_queue ON runs (pool, turn, number, tier, owner) WHERE state = 'created';
CREATE INDEX runs_queued_by ON runs (pool, principal, turn) WHERE state = 'created';
CREATE INDEX runs_due ON runs (state, lease_until, expires_at, approval_until, owner)
    WHERE state NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_of ON runs (principal, created_at, number);
