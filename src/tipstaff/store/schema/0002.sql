-- What runs at work ask people: may this place be reached? A row is a question; it goes with its run. The approval is
-- the signed document, whole. A question that was given up by whoever asked it is a `no` that nobody said.

CREATE TABLE questions (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    rule TEXT NOT NULL,                   -- of the policy: the grant that says `ask`
    asked_at INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'yes', 'no')),
    approval BLOB,                        -- where the answer is yes
    reason TEXT,                          -- where it is no
    answered_at INTEGER,
    PRIMARY KEY (run_id, host, port, rule)
) WITHOUT ROWID;
CREATE INDEX questions_waiting ON questions (asked_at) WHERE state = 'waiting';
