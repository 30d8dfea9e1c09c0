/* Tests of the library: the arguments are a directory that is served as /files, and public keys: of the server, and another. */
#include <errno.h>
#include <namewire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 300000

static unsigned char content[LENGTH];

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, error.text); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

static struct namewire_error error;

static struct namewire_context *connect_with(const char *verify)
{
	struct namewire_options options = {0};

	options.size = sizeof options;
	options.verify = verify;
	options.timeout_ms = 20000;
	options.lifetime_ms = 300;
	return namewire_connect(&options, &error);
}

static void test_reads(struct namewire_context *context)
{
	static unsigned char buffer[LENGTH + 1];
	struct namewire_file *file = namewire_open(context, "/files/content", &error);
	struct namewire_stat found;
	struct namewire_part parts[3];

	CHECK(file);
	CHECK(strncmp(namewire_file_name(file), "/files/content/v=", 17) == 0);
	CHECK(namewire_fstat(file, &found, &error) == 0);
	CHECK(found.size == LENGTH && found.size_known && !found.is_directory && found.version > 0);
	CHECK(namewire_pread(file, buffer, sizeof buffer, 0, &error) == LENGTH);
	CHECK(memcmp(buffer, content, LENGTH) == 0);
	CHECK(namewire_pread(file, buffer, 100, LENGTH - 10, &error) == 10);
	CHECK(memcmp(buffer, content + LENGTH - 10, 10) == 0);
	CHECK(namewire_pread(file, buffer, 100, LENGTH, &error) == 0);
	CHECK(namewire_pread(file, buffer, 100, UINT64_MAX, &error) == 0);
	CHECK(namewire_pread(file, NULL, 0, 5, &error) == 0);
	for (int i = 0; i < 3; i++)
		parts[i] = (struct namewire_part){(uint64_t)i * 140000, buffer + i * 1000, 1000, 0};
	parts[2].offset = LENGTH - 5;
	CHECK(namewire_preadv(file, parts, 3, &error) == 2005);
	CHECK(parts[0].read == 1000 && parts[1].read == 1000 && parts[2].read == 5);
	CHECK(memcmp(buffer + 1000, content + 140000, 1000) == 0);
	CHECK(memcmp(buffer + 2000, content + LENGTH - 5, 5) == 0);
	namewire_close(file);
}

static void test_directories(struct namewire_context *context)
{
	struct namewire_directory *directory = namewire_opendir(context, "/files", &error);
	struct namewire_entry entry;
	struct namewire_stat found;

	CHECK(directory);
	CHECK(namewire_readdir(directory, &entry) == 1);
	CHECK(strcmp(entry.name, "content") == 0 && !entry.is_directory);
	CHECK(namewire_readdir(directory, &entry) == 1);
	CHECK(strcmp(entry.name, "sub") == 0 && entry.is_directory);
	CHECK(namewire_readdir(directory, &entry) == 0);
	CHECK(namewire_readdir(directory, &entry) == 0);
	namewire_closedir(directory);
	CHECK(namewire_stat(context, "/files/sub", &found, &error) == 0);
	CHECK(found.is_directory && !found.size_known);
}

static void test_errors(struct namewire_context *context)
{
	struct namewire_stat found;
	struct namewire_options wrong = {0};
	struct namewire_part part = {UINT64_MAX, NULL, SIZE_MAX, 0};
	struct namewire_file *file = namewire_open(context, "/files/content", NULL);

	CHECK(!namewire_open(context, "/files/none", &error));
	CHECK(error.number == ENOENT && strstr(error.text, "/files/none"));
	CHECK(!namewire_open(context, "/files/sub", &error) && error.number == EISDIR);
	CHECK(!namewire_opendir(context, "/files/content", &error) && error.number == ENOTDIR);
	CHECK(!namewire_open(context, "/nowhere/file", &error) && error.number == ENETUNREACH);
	CHECK(!namewire_open(context, "/files/%zz", &error) && error.number == EINVAL);
	CHECK(strstr(error.text, "%zz"));
	CHECK(!namewire_open(context, NULL, &error) && error.number == EINVAL);
	CHECK(!namewire_open(NULL, "/files/content", &error) && error.number == EINVAL);
	CHECK(!namewire_open(context, "\xff", &error) && error.number == EINVAL);
	CHECK(namewire_stat(context, "/files", NULL, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_fstat(NULL, &found, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_pread(file, NULL, 10, 0, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_preadv(file, NULL, 2, &error) == -1 && error.number == EINVAL);
	CHECK(namewire_preadv(file, &part, 1, &error) == 0 || error.number == EINVAL);
	/* Without a place for the reason. */
	CHECK(!namewire_open(context, "/files/none", NULL));
	CHECK(!namewire_connect(&wrong, &error) && error.number == EINVAL);
	CHECK(!connect_with("/nonexistent.pem") && error.number == EINVAL);
	CHECK(strstr(error.text, "/nonexistent.pem"));
	wrong.size = sizeof wrong;
	wrong.transport = "unix:///nonexistent";
	CHECK(!namewire_connect(&wrong, &error) && error.number == EHOSTDOWN);
	namewire_close(NULL);
	namewire_closedir(NULL);
	namewire_disconnect(NULL);
	CHECK(!namewire_file_name(NULL));
	namewire_close(file);
}

static void *read_in_thread(void *argument)
{
	struct namewire_file *file = argument;
	unsigned char buffer[5000];
	unsigned int seed = 1;

	for (int i = 0; i < 200; i++) {
		seed = seed * 1103515245 + 12345;
		uint64_t offset = seed % (LENGTH - sizeof buffer);
		if (namewire_pread(file, buffer, sizeof buffer, offset, NULL) != (ssize_t)sizeof buffer
		    || memcmp(buffer, content + offset, sizeof buffer) != 0)
			return file;
	}
	return NULL;
}

static void test_threads(void)
{
	struct namewire_context *context = connect_with(NULL);
	struct namewire_file *file = namewire_open(context, "/files/content", &error);
	pthread_t threads[8];
	void *failed;

	CHECK(file);
	/* The file outlives its context. */
	namewire_disconnect(context);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, read_in_thread, file) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
	namewire_close(file);
}

static void test_fork(struct namewire_context *context)
{
	struct namewire_file *file = namewire_open(context, "/files/content", &error);
	unsigned char buffer[10];
	int status;

	CHECK(file);
	pid_t child = fork();
	if (child == 0) {
		int refused = namewire_pread(file, buffer, 10, 0, &error) == -1 && error.number == EHOSTDOWN;
		namewire_close(file);
		/* A connection of its own works. */
		struct namewire_context *own = connect_with(NULL);
		file = own ? namewire_open(own, "/files/content", &error) : NULL;
		int reads = file && namewire_pread(file, buffer, 10, 0, &error) == 10;
		_exit(refused && reads ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(namewire_pread(file, buffer, 10, 0, &error) == 10);
	namewire_close(file);
}

int main(int argc, char **argv)
{
	char path[4096];

	if (argc != 4)
		return 2;
	for (size_t i = 0; i < LENGTH; i++)
		content[i] = (unsigned char)(i * 7 + i / 251);
	snprintf(path, sizeof path, "%s/content", argv[1]);
	FILE *out = fopen(path, "wb");
	CHECK(out && fwrite(content, 1, LENGTH, out) == LENGTH && fclose(out) == 0);
	struct namewire_context *context = connect_with(argv[2]);
	CHECK(context);
	CHECK(namewire_version()[0] != 0);
	test_reads(context);
	test_directories(context);
	test_errors(context);
	test_threads();
	test_fork(context);
	namewire_disconnect(context);
	struct namewire_context *other = connect_with(argv[3]);
	CHECK(other);
	CHECK(!namewire_open(other, "/files/content", &error) && error.number == EIO);
	namewire_disconnect(other);
	puts("passed");
	return 0;
}
