/* address.c: any bytes as an IP address and as a network. Weir and libc must agree on what they read, print and read
 * back. A mask clears exactly its bits, and a network contains the address that it was made from.
 *
 * The first byte of an input is the number of mask bits, the rest is the text. */
#include "policy/address.h"

#include <arpa/inet.h>

#include "require.h"

enum { TEXT_MOST = 256 };

static bool is_same(const struct weir__address *a, const struct weir__address *b)
{
	return a->is_v6 == b->is_v6 && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool bit_of(const struct weir__address *address, unsigned i)
{
	return address->bytes[i / 8] >> (7 - i % 8) & 1;
}

static void print(const struct weir__address *address, char text[TEXT_MOST])
{
	require(inet_ntop(address->is_v6 ? AF_INET6 : AF_INET, address->bytes, text, TEXT_MOST) != NULL,
		"libc does not print it");
}

/* Reads an address without brackets or spaces by libc. False: not an address. */
static bool read_plainly(const char *text, struct weir__address *ret_address)
{
	struct in6_addr six;

	memset(ret_address, 0, sizeof(*ret_address));
	if (inet_pton(AF_INET, text, ret_address->bytes) == 1)
		return true;
	if (inet_pton(AF_INET6, text, &six) != 1)
		return false;
	ret_address->is_v6 = !IN6_IS_ADDR_V4MAPPED(&six);
	if (ret_address->is_v6)
		memcpy(ret_address->bytes, six.s6_addr, 16);
	else
		memcpy(ret_address->bytes, six.s6_addr + 12, 4);
	return true;
}

static void check_mask(const struct weir__address *address, unsigned bits)
{
	const unsigned length = 8 * weir__address_length(address);
	const struct weir__address masked = weir__address_mask(address, bits),
				   again = weir__address_mask(&masked, bits);
	struct weir__network network, read;
	char text[TEXT_MOST];
	bool is_host_bits;

	require(masked.is_v6 == address->is_v6 && is_same(&masked, &again), "masked again, it is another");
	for (unsigned i = 0; i < 8 * WEIR__ADDRESS_BYTES; i++)
		require(bit_of(&masked, i) == (i < bits && i < length && bit_of(address, i)),
			"a bit is not what it was");
	network = (struct weir__network){ masked, bits };
	require(weir__network_has(&network, address), "a network has not what it is made of");
	print(&masked, text);
	(void)sprintf(text + strlen(text), "/%u", bits);
	/* libc prints an IPv6 network at or below ::ffff:0:0 as a mapped IPv4 address, which Weir does not read as
	 * IPv6. */
	if (!weir__network_read(weir__slice_of(text), &read, &is_host_bits)) {
		const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

		require(masked.is_v6 && memcmp(masked.bytes, mapped, sizeof(mapped)) == 0,
			"a network is not read again");
		return;
	}
	require(!is_host_bits && read.bits == bits && is_same(&read.address, &masked),
		"read again, it is another network");
}

static void check_address(const struct weir__address *address, unsigned bits)
{
	struct weir__address again;
	char text[TEXT_MOST];

	for (unsigned i = weir__address_length(address); i < WEIR__ADDRESS_BYTES; i++)
		require(address->bytes[i] == 0, "something behind an address of IPv4");
	print(address, text);
	require(weir__address_read(weir__slice_of(text), &again) && is_same(address, &again),
		"printed and read, it is another");
	check_mask(address, bits % (8 * weir__address_length(address) + 1));
}

static void check_network(const struct weir__network *network)
{
	const struct weir__address masked = weir__address_mask(&network->address, network->bits);

	require(network->bits <= 8 * weir__address_length(&network->address), "more bits than there are");
	require(is_same(&masked, &network->address), "bits beyond its length");
	require(weir__network_has(network, &network->address), "a network has not its own address");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir__address address, plain;
	struct weir__network network;
	bool is_read, is_host_bits;
	struct weir__slice text;
	char *copy;

	if (size == 0)
		return 0;
	copy = malloc(size); /* one byte for a NUL after the text */
	if (copy == NULL)
		abort();
	memcpy(copy, data + 1, size - 1);
	copy[size - 1] = '\0';
	text = (struct weir__slice){ copy, size - 1 };
	is_read = weir__address_read(text, &address);
	if (strlen(copy) == text.n && strpbrk(copy, "[]%") == NULL) {
		require(is_read == read_plainly(copy, &plain), "libc reads it otherwise");
		require(!is_read || is_same(&address, &plain), "libc reads a different address");
	}
	if (is_read)
		check_address(&address, data[0]);
	if (weir__network_read(text, &network, &is_host_bits))
		check_network(&network);
	free(copy);
	return 0;
}
