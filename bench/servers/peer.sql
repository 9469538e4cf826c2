-- The ledger of the peer: what a careful team would write on PostgreSQL. One function call is one transaction and one
-- commit; constraints, not code, keep keys unique; the balance row is locked only where money is held.

CREATE TABLE accounts (
  account_id text PRIMARY KEY,
  key_hash text NOT NULL UNIQUE,
  live boolean NOT NULL,
  payouts_enabled boolean NOT NULL
);

CREATE TABLE balances (
  account_id text NOT NULL REFERENCES accounts,
  currency text NOT NULL,
  pending bigint NOT NULL DEFAULT 0,
  available bigint NOT NULL DEFAULT 0 CHECK (available >= 0),
  PRIMARY KEY (account_id, currency)
) WITH (fillfactor = 50);

CREATE TABLE transactions (
  id text PRIMARY KEY,
  account_id text NOT NULL,
  type text NOT NULL,
  status text NOT NULL,
  amount bigint NOT NULL CHECK (amount > 0),
  fee bigint NOT NULL,
  currency text NOT NULL,
  country text NOT NULL,
  network text NOT NULL,
  msisdn text NOT NULL,
  reference text NOT NULL,
  provider text,
  metadata jsonb,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX transactions_of_account ON transactions (account_id, id DESC);
CREATE INDEX transactions_by_reference ON transactions (account_id, reference);

CREATE TABLE status_events (
  transaction_id text NOT NULL,
  number int NOT NULL,
  status text NOT NULL,
  source text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (transaction_id, number)
);

CREATE TABLE ledger_entries (
  transaction_id text NOT NULL,
  number int NOT NULL,
  account text NOT NULL,
  side text NOT NULL CHECK (side IN ('DEBIT', 'CREDIT')),
  amount bigint NOT NULL,
  currency text NOT NULL,
  reason text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (transaction_id, number)
);

CREATE TABLE idempotency (
  account_id text NOT NULL,
  key text NOT NULL,
  request_hash text NOT NULL,
  response text,
  PRIMARY KEY (account_id, key)
);

-- outcome: 'created', 'replayed', 'key_reused', 'invalid_key', 'insufficient_balance'. response: the body, or null.

CREATE FUNCTION create_charge(
  p_key_hash text, p_idempotency_key text, p_request_hash text, p_id text, p_amount bigint, p_currency text,
  p_msisdn text, p_masked text, p_reference text,
  OUT outcome text, OUT response text
) LANGUAGE plpgsql AS $$
DECLARE
  v_account text;
  v_now timestamptz := date_trunc('milliseconds', clock_timestamp());
  v_at text := to_char(v_now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
BEGIN
  SELECT account_id INTO v_account FROM accounts WHERE key_hash = p_key_hash AND live;
  IF NOT FOUND THEN outcome := 'invalid_key'; RETURN; END IF;

  response := json_build_object(
    'id', p_id, 'object', 'charge', 'status', 'AWAITING_CUSTOMER', 'amount', p_amount::text, 'currency', p_currency,
    'country', 'UG', 'network', 'MTN', 'msisdn_masked', p_masked, 'reference', p_reference, 'description', NULL,
    'fee', '0', 'net', p_amount::text, 'provider', 'mtn_ug', 'failure_code', NULL, 'failure_message', NULL,
    'metadata', NULL, 'created_at', v_at, 'updated_at', v_at)::text;
  INSERT INTO idempotency (account_id, key, request_hash, response)
    VALUES (v_account, p_idempotency_key, p_request_hash, response) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    SELECT CASE WHEN i.request_hash = p_request_hash THEN 'replayed' ELSE 'key_reused' END, i.response
      INTO outcome, response FROM idempotency i WHERE i.account_id = v_account AND i.key = p_idempotency_key;
    RETURN;
  END IF;

  INSERT INTO transactions VALUES (p_id, v_account, 'CHARGE', 'AWAITING_CUSTOMER', p_amount, p_amount * 25 / 1000, p_currency,
    'UG', 'MTN', p_msisdn, p_reference, 'mtn_ug', NULL, v_now, v_now);
  INSERT INTO status_events VALUES (p_id, 0, 'INITIATED', 'API', v_now), (p_id, 1, 'PENDING_PROVIDER', 'API', v_now),
    (p_id, 2, 'AWAITING_CUSTOMER', 'API', v_now);
  outcome := 'created';
END $$;

CREATE FUNCTION create_payout(
  p_key_hash text, p_idempotency_key text, p_request_hash text, p_id text, p_amount bigint, p_currency text,
  p_msisdn text, p_masked text, p_reference text,
  OUT outcome text, OUT response text
) LANGUAGE plpgsql AS $$
DECLARE
  v_account text;
  v_fee bigint := least(greatest(p_amount / 100, 500), 10000);
  v_now timestamptz := date_trunc('milliseconds', clock_timestamp());
  v_at text := to_char(v_now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
BEGIN
  SELECT account_id INTO v_account FROM accounts WHERE key_hash = p_key_hash AND live AND payouts_enabled;
  IF NOT FOUND THEN outcome := 'invalid_key'; RETURN; END IF;

  response := json_build_object(
    'id', p_id, 'object', 'payout', 'status', 'PENDING_PROVIDER', 'amount', p_amount::text, 'currency', p_currency,
    'country', 'UG', 'network', 'MTN', 'msisdn_masked', p_masked, 'reference', p_reference, 'fee', '0',
    'total_debited', p_amount::text, 'provider', 'mtn_ug', 'approval_status', 'NOT_REQUIRED', 'failure_code', NULL,
    'failure_message', NULL, 'metadata', NULL, 'created_at', v_at, 'updated_at', v_at)::text;
  INSERT INTO idempotency (account_id, key, request_hash, response)
    VALUES (v_account, p_idempotency_key, p_request_hash, response) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    SELECT CASE WHEN i.request_hash = p_request_hash THEN 'replayed' ELSE 'key_reused' END, i.response
      INTO outcome, response FROM idempotency i WHERE i.account_id = v_account AND i.key = p_idempotency_key;
    RETURN;
  END IF;

  INSERT INTO transactions VALUES (p_id, v_account, 'PAYOUT', 'PENDING_PROVIDER', p_amount, v_fee, p_currency,
    'UG', 'MTN', p_msisdn, p_reference, 'mtn_ug', NULL, v_now, v_now);
  INSERT INTO status_events VALUES (p_id, 0, 'INITIATED', 'API', v_now), (p_id, 1, 'PENDING_PROVIDER', 'API', v_now);
  INSERT INTO ledger_entries VALUES
    (p_id, 0, 'MERCHANT_AVAILABLE', 'DEBIT', p_amount + v_fee, p_currency, 'PAYOUT_HELD', v_now),
    (p_id, 1, 'SETTLEMENT_CLEARING', 'CREDIT', p_amount + v_fee, p_currency, 'PAYOUT_HELD', v_now);
  -- Last: the row stays locked until the commit, so nothing else is done while it is.
  UPDATE balances SET available = available - (p_amount + v_fee)
    WHERE account_id = v_account AND currency = p_currency AND available >= p_amount + v_fee;
  IF NOT FOUND THEN RAISE EXCEPTION 'insufficient_balance'; END IF;
  outcome := 'created';
END $$;
