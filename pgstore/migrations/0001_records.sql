-- idem, schema 1: the table of records, its indexes, and a view for operators.
--
-- Columns are added by later migrations, never renamed or given another meaning.
-- There are no CHECK constraints on state and format: a later release may write
-- what this one does not know, and a reader reports that instead of guessing.

CREATE TABLE "public"."idem_records" (
    key             text COLLATE "C" NOT NULL PRIMARY KEY, -- namespace and key: driver.JoinKey
    token           bigint      NOT NULL, -- fencing token of the last claim
    version         bigint      NOT NULL, -- rises with each change: what a takeover compares
    revision        bigint      NOT NULL, -- of a completed record, from 1
    claimed_at      timestamptz NOT NULL,
    changed_at      timestamptz NOT NULL,
    windows_from    timestamptz NOT NULL, -- where a provider's window begins that says nothing else
    lease_until     timestamptz,          -- while claimed
    recorded_at     timestamptz,          -- once completed
    expires_at      timestamptz,          -- end of the retention; NULL while claimed, unknown or held
    audit_at        timestamptz,
    attempt         integer     NOT NULL,
    format          smallint    NOT NULL,
    state           smallint    NOT NULL, -- 1 claimed, 2 released, 3 completed
    body            smallint    NOT NULL, -- 0 kept, 1 not encoded, 2 too large, 3 redacted
    held            boolean     NOT NULL,
    doubt           boolean     NOT NULL, -- some earlier attempt may have had its effect
    failed          boolean     NOT NULL, -- the outcome is a failure
    recovered       boolean     NOT NULL,
    watched         boolean     NOT NULL, -- somebody waits: notify when it is settled
    owner           bytea       NOT NULL,
    fingerprint     bytea,
    fingerprint_key text,
    seal_key        text,
    codec           text,
    code            text,
    message         text,
    audit_by        text,
    audit_why       text,
    providers       jsonb       NOT NULL,
    refs            jsonb       NOT NULL,
    outcome         bytea
) WITH (fillfactor = 70);

-- What a purge removes, oldest first.
CREATE INDEX "idem_records_expires" ON "public"."idem_records" (expires_at) WHERE expires_at IS NOT NULL;

-- What is claimed, unknown or held: what a recovery pass looks for.
CREATE INDEX "idem_records_open" ON "public"."idem_records" (key) WHERE expires_at IS NULL;

-- It reads the whole table.
CREATE VIEW "public"."idem_records_stats" AS
SELECT CASE
           WHEN expires_at <= pg_catalog.now() THEN 'expired'
           WHEN state = 3 AND failed THEN 'failed'
           WHEN state = 3 THEN 'succeeded'
           WHEN state = 1 AND lease_until > pg_catalog.now() THEN 'claimed'
           WHEN state = 1 OR held THEN 'unknown'
           WHEN state = 2 THEN 'released'
           ELSE 'unreadable'
       END                                             AS state,
       pg_catalog.count(*)                             AS records,
       pg_catalog.count(*) FILTER (WHERE held)         AS held,
       pg_catalog.count(*) FILTER (WHERE doubt)        AS in_doubt,
       pg_catalog.count(*) FILTER (WHERE watched)      AS waited_for,
       pg_catalog.max(attempt)                         AS most_attempts,
       pg_catalog.min(changed_at)                      AS oldest_change,
       pg_catalog.max(changed_at)                      AS latest_change,
       pg_catalog.min(expires_at)                      AS next_expiry,
       pg_catalog.sum(pg_catalog.octet_length(outcome)) AS outcome_bytes
FROM "public"."idem_records"
GROUP BY 1;

-- The version of this schema. Validate and Migrate read it.
COMMENT ON TABLE "public"."idem_records" IS 'idem records, schema 1';
