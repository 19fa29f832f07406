/* metrics.c: the table of metrics, and writing them. */
#include "observe/metrics.h"

#include <string.h>

#include "core/wide.h"
#include "wire/digits.h"

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum { MILLION = 1000000, BILLION = 1000000000, BILLIONTHS_DIGITS = 9 };

const struct weir__metric_row weir__metric_rows[WEIR__METRICS_N] = {
#define METRIC_ROW(id, name, type, unit, labels, help)                                                                 \
	[WEIR__METRIC_##id] = { (name), WEIR__METRIC_##type, (unit), (labels), (help) },
	WEIR__METRICS(METRIC_ROW)
#undef METRIC_ROW
};

const char *weir__metric_suffix(enum weir__metric_type type)
{
	return type == WEIR__METRIC_COUNTER ? "_total" : type == WEIR__METRIC_INFO ? "_info" : "";
}

/* --- labels ------------------------------------------------------------------------------------------------------ */

/* Writes the character at `at`, escaped if necessary. Returns the number of bytes read; *ret_length is the number
 * written. */
static size_t escape(const unsigned char *at, size_t n, char to[8], size_t *ret_length)
{
	static const char digits[] = "0123456789ABCDEF";
	const size_t length = *at < 0x80 ? 1 : weir__reply_utf8(at, n);

	if (*at == '\n' || *at == '"' || *at == '\\') {
		to[0] = '\\';
		to[1] = (char)(*at == '\n' ? 'n' : *at);
		*ret_length = 2;
	} else if (length == 0) {
		(void)WEIR__PUT(to, "\\\\x");
		to[3] = digits[*at >> 4];
		to[4] = digits[*at & 15];
		*ret_length = 5;
	} else {
		memcpy(to, at, length);
		*ret_length = length;
	}
	return length ? length : 1;
}

void weir__labels_add(struct weir__labels *labels, const char *name, const char *value)
{
	const size_t name_length = strlen(name);
	const unsigned char *at = (const unsigned char *)value;
	size_t left = strlen(value), length;
	char *to = labels->at + labels->n;
	char escaped[8];

	if (sizeof(labels->at) - labels->n < name_length + 4) /* a comma, the equals sign and the quotes */
		return;
	if (labels->n > 0)
		*to++ = ',';
	to = weir__put(to, name, name_length);
	to = WEIR__PUT(to, "=\"");
	while (left > 0) {
		const size_t taken = escape(at, left, escaped, &length);

		if ((size_t)(labels->at + sizeof(labels->at) - to) < length + 1)
			break;
		to = weir__put(to, escaped, length);
		at += taken;
		left -= taken;
	}
	*to++ = '"';
	labels->n = (size_t)(to - labels->at);
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

static struct weir__decimal of_billionths(weir__u128 billionths)
{
	struct weir__decimal decimal = { UINT64_MAX, 0 };

	if (billionths / BILLION <= UINT64_MAX) {
		decimal.whole = (uint64_t)(billionths / BILLION);
		decimal.billionths = (uint32_t)(billionths % BILLION);
	}
	return decimal;
}

struct weir__decimal weir__decimal_of_share(uint64_t a, uint64_t b)
{
	return of_billionths(b ? ((weir__u128)a * MILLION + b / 2) / b * (BILLION / MILLION) : 0);
}

struct weir__decimal weir__decimal_of_rate(uint64_t count, uint64_t period_ns)
{
	return of_billionths(period_ns ? (weir__u128)count * BILLION * BILLION / period_ns : 0);
}

struct weir__decimal weir__decimal_of_ns(uint64_t ns)
{
	return (struct weir__decimal){ ns / BILLION, (uint32_t)(ns % BILLION) };
}

enum { DECIMAL_MOST = WEIR__DIGITS_MOST + 1 + BILLIONTHS_DIGITS };

/* Without trailing zeros. */
static char *put_decimal(char *to, struct weir__decimal decimal)
{
	uint32_t rest = decimal.billionths;

	to = weir__put_digits(to, decimal.whole);
	if (rest == 0)
		return to;
	*to++ = '.';
	for (uint32_t unit = BILLION / 10; rest > 0; unit /= 10) {
		*to++ = (char)('0' + rest / unit);
		rest %= unit;
	}
	return to;
}

/* --- samples ----------------------------------------------------------------------------------------------------- */

static void add_line(struct weir__http_reply *reply, const char *what, const char *name, const char *suffix,
		     const char *text)
{
	const char *const words[] = { "# ", what, " ", name, suffix, " ", text, "\n" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		weir__reply_add_text(reply, words[i]);
}

/* The text format has no info type, so infos are gauges there. */
static const char *type_word(enum weir__metric_type type, bool is_openmetrics)
{
	switch (type) {
	case WEIR__METRIC_COUNTER:
		return "counter";
	case WEIR__METRIC_HISTOGRAM:
		return "histogram";
	case WEIR__METRIC_INFO:
		return is_openmetrics ? "info" : "gauge";
	default:
		return "gauge";
	}
}

void weir__metrics_begin(struct weir__metrics *metrics, enum weir__metric metric)
{
	const struct weir__metric_row *const row = &weir__metric_rows[metric];
	const char *const suffix = metrics->is_openmetrics ? "" : weir__metric_suffix(row->type);

	metrics->metric = metric;
	add_line(metrics->reply, "HELP", row->name, suffix, row->help);
	add_line(metrics->reply, "TYPE", row->name, suffix, type_word(row->type, metrics->is_openmetrics));
	if (metrics->is_openmetrics && *row->unit)
		add_line(metrics->reply, "UNIT", row->name, "", row->unit);
}

/* Writes a sample up to its value. */
static void begin_sample(struct weir__metrics *metrics, const char *suffix, const char *labels, size_t n)
{
	weir__reply_add_text(metrics->reply, weir__metric_rows[metrics->metric].name);
	weir__reply_add_text(metrics->reply, suffix);
	if (n > 0) {
		WEIR__REPLY_ADD(metrics->reply, "{");
		weir__reply_add(metrics->reply, labels, n);
		WEIR__REPLY_ADD(metrics->reply, "}");
	}
	WEIR__REPLY_ADD(metrics->reply, " ");
}

static void end_with(struct weir__http_reply *reply, struct weir__decimal value)
{
	char *const to = weir__reply_room(reply, DECIMAL_MOST + 1);

	if (to)
		weir__reply_wrote(reply, WEIR__PUT(put_decimal(to, value), "\n"));
}

static void add_sample(struct weir__metrics *metrics, const char *suffix, const char *labels, size_t n,
		       struct weir__decimal value)
{
	begin_sample(metrics, suffix, labels, n);
	end_with(metrics->reply, value);
}

void weir__metrics_add_decimal(struct weir__metrics *metrics, const char *labels, size_t n, struct weir__decimal value)
{
	add_sample(metrics, weir__metric_suffix(weir__metric_rows[metrics->metric].type), labels, n, value);
}

void weir__metrics_add(struct weir__metrics *metrics, const char *labels, size_t n, uint64_t value)
{
	weir__metrics_add_decimal(metrics, labels, n, (struct weir__decimal){ value, 0 });
}

void weir__metrics_add_word(struct weir__metrics *metrics, const char *label, const char *word, uint64_t value)
{
	struct weir__labels labels;

	labels.n = 0;
	weir__labels_add(&labels, label, word);
	weir__metrics_add(metrics, labels.at, labels.n, value);
}

void weir__metrics_one(struct weir__metrics *metrics, enum weir__metric metric, uint64_t value)
{
	weir__metrics_begin(metrics, metric);
	weir__metrics_add(metrics, "", 0, value);
}

/* --- histograms -------------------------------------------------------------------------------------------------- */

/* _count is the sum of the buckets, so that it equals the last bucket even while others are counting. */
void weir__metrics_add_histogram(struct weir__metrics *metrics, const char *labels, size_t n,
				 const struct weir__metrics_histogram *histogram)
{
	struct weir__labels bounded;
	uint64_t sum = 0;
	char bound[DECIMAL_MOST + 1];

	for (unsigned i = 0; i < histogram->n; i++) {
		sum += histogram->counts[i];
		if (i + 1 < histogram->n)
			*put_decimal(bound, weir__decimal_of_ns(histogram->least_ns << i)) = '\0';
		else
			memcpy(bound, "+Inf", sizeof("+Inf"));
		memcpy(bounded.at, labels, n);
		bounded.n = n;
		weir__labels_add(&bounded, "le", bound);
		add_sample(metrics, "_bucket", bounded.at, bounded.n, (struct weir__decimal){ sum, 0 });
	}
	add_sample(metrics, "_sum", labels, n, weir__decimal_of_ns(histogram->sum_ns));
	add_sample(metrics, "_count", labels, n, (struct weir__decimal){ sum, 0 });
}

void weir__metrics_end(struct weir__metrics *metrics)
{
	if (metrics->is_openmetrics)
		WEIR__REPLY_ADD(metrics->reply, "# EOF\n");
	weir__reply_end(metrics->reply, 200, metrics->is_openmetrics ? TYPE_OPENMETRICS : TYPE_TEXT);
}
