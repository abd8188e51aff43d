-- A worker whose provider limits the rate of requests. parked_until: nothing is opened for it before; NULL: it is not parked.
-- backoffs: rate limits in a row without a time of reset.
ALTER TABLE workers ADD COLUMN parked_until INTEGER;
ALTER TABLE workers ADD COLUMN backoffs INTEGER NOT NULL DEFAULT 0;
