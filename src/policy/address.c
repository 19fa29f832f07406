/* address.c: parses, prints and masks addresses, with libc's functions where they are fast enough. */
#include "policy/address.h"

#include <arpa/inet.h>

#include "core/decimal.h"

static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

static struct weir__slice without_brackets_and_zone(struct weir__slice text)
{
	const char *zone;

	if (text.n >= 2 && text.at[0] == '[' && text.at[text.n - 1] == ']')
		text = (struct weir__slice){ text.at + 1, text.n - 2 };
	zone = text.n > 0 ? memchr(text.at, '%', text.n) : NULL;
	if (zone)
		text.n = (size_t)(zone - text.at);
	return text;
}

/* Four numbers up to 255 without leading zeros, as inet_pton reads them. Most requests have such an address, so it is
 * parsed in place, without the NUL-terminated copy that inet_pton needs. */
static bool read_v4(struct weir__slice text, unsigned char ret_bytes[4])
{
	size_t at = 0;

	for (int i = 0; i < 4; i++) {
		const size_t start = at;
		unsigned number = 0;

		if (i > 0 && (at == text.n || text.at[at++] != '.'))
			return false;
		for (size_t digits = 0; at < text.n && text.at[at] >= '0' && text.at[at] <= '9'; at++, digits++) {
			if (digits > 0 && number == 0)
				return false;
			number = number * 10 + (unsigned)(text.at[at] - '0');
			if (number > 255)
				return false;
		}
		if (at == start + (i > 0))
			return false;
		ret_bytes[i] = (unsigned char)number;
	}
	return at == text.n;
}

struct weir__address weir__address_of(const unsigned char *bytes, bool is_v6)
{
	struct weir__address address = { .is_v6 = false };

	if (is_v6 && memcmp(bytes, mapped, sizeof(mapped)) == 0) {
		bytes += sizeof(mapped);
		is_v6 = false;
	}
	address.is_v6 = is_v6;
	memcpy(address.bytes, bytes, weir__address_length(&address));
	return address;
}

bool weir__address_read(struct weir__slice text, struct weir__address *ret_address)
{
	char word[INET6_ADDRSTRLEN];
	unsigned char bytes[WEIR__ADDRESS_BYTES];

	*ret_address = (struct weir__address){ .is_v6 = false };
	if (read_v4(text, ret_address->bytes))
		return true;
	text = without_brackets_and_zone(text);
	if (text.n == 0 || text.n >= sizeof(word) || memchr(text.at, '\0', text.n))
		return false;
	memcpy(word, text.at, text.n);
	word[text.n] = '\0';
	*ret_address = (struct weir__address){ .is_v6 = false };
	if (inet_pton(AF_INET, word, ret_address->bytes) == 1)
		return true;
	if (inet_pton(AF_INET6, word, bytes) != 1)
		return false;
	*ret_address = weir__address_of(bytes, true);
	return true;
}

_Static_assert((int)WEIR__ADDRESS_TEXT == (int)INET6_ADDRSTRLEN, "an address fits");

void weir__address_write(const struct weir__address *address, char ret_text[WEIR__ADDRESS_TEXT])
{
	(void)inet_ntop(address->is_v6 ? AF_INET6 : AF_INET, address->bytes, ret_text, WEIR__ADDRESS_TEXT);
}

struct weir__address weir__address_mask(const struct weir__address *address, unsigned bits)
{
	const unsigned whole = bits / 8;
	struct weir__address masked = *address;

	if (whole >= weir__address_length(address)) /* an IPv4 address has no bits behind it */
		return masked;
	masked.bytes[whole] &= (unsigned char)(0xff00u >> bits % 8);
	for (unsigned i = whole + 1; i < WEIR__ADDRESS_BYTES; i++)
		masked.bytes[i] = 0;
	return masked;
}

static bool read_bits(struct weir__slice text, unsigned most, unsigned *ret_bits)
{
	uint64_t bits;

	if (text.n > 3 || !weir__decimal_read(text.at, text.n, most, &bits))
		return false;
	*ret_bits = (unsigned)bits;
	return true;
}

/* The prefix of an IPv4-mapped IPv6 network includes the 96 bits before the IPv4 address. Returns false if it is
 * shorter than that. */
static bool count_mapped(struct weir__slice text, struct weir__network *network)
{
	const unsigned before = 8 * sizeof(mapped);

	if (network->address.is_v6 || memchr(text.at, ':', text.n) == NULL)
		return true;
	if (network->bits < before)
		return false;
	network->bits -= before;
	return true;
}

bool weir__network_read(struct weir__slice text, struct weir__network *ret_network, bool *ret_is_host_bits)
{
	const char *const slash = text.n > 0 ? memchr(text.at, '/', text.n) : NULL;
	const struct weir__slice address = { text.at, slash ? (size_t)(slash - text.at) : text.n };
	struct weir__address masked;
	unsigned most;

	*ret_is_host_bits = false;
	if (!weir__address_read(address, &ret_network->address))
		return false;
	most = memchr(address.at, ':', address.n) ? 128 : 32; /* by the form in which it is written */
	ret_network->bits = most;
	if (slash && !read_bits((struct weir__slice){ slash + 1, text.n - address.n - 1 }, most, &ret_network->bits))
		return false;
	if (!count_mapped(address, ret_network)) {
		*ret_is_host_bits = true;
		return false;
	}
	masked = weir__address_mask(&ret_network->address, ret_network->bits);
	*ret_is_host_bits = memcmp(masked.bytes, ret_network->address.bytes, sizeof(masked.bytes)) != 0;
	return !*ret_is_host_bits;
}

bool weir__network_equal(const struct weir__network *a, const struct weir__network *b)
{
	return a->bits == b->bits && a->address.is_v6 == b->address.is_v6 &&
	       memcmp(a->address.bytes, b->address.bytes, sizeof(a->address.bytes)) == 0;
}

bool weir__network_has(const struct weir__network *network, const struct weir__address *address)
{
	const struct weir__address masked = weir__address_mask(address, network->bits);

	return network->address.is_v6 == address->is_v6 &&
	       memcmp(masked.bytes, network->address.bytes, sizeof(masked.bytes)) == 0;
}
