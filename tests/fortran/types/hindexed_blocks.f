! ranks: 2
! Blocks of one length at places in bytes and in elements.
      PROGRAM BLOCKS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, T, U, I, A(20), B(20), D(3)
      INTEGER(KIND=MPI_ADDRESS_KIND) H(3)
      DATA D /15, 0, 7/
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      DO 10 I = 1, 3
         H(I) = 4*D(I)
   10 CONTINUE
      CALL MPI_TYPE_CREATE_INDEXED_BLOCK(3, 2, D, MPI_INTEGER, T, IERR)
      CALL MPI_TYPE_CREATE_HINDEXED_BLOCK(3, 2, H, MPI_INTEGER, U, IERR)
      CALL MPI_TYPE_COMMIT(T, IERR)
      CALL MPI_TYPE_COMMIT(U, IERR)
      DO 20 I = 1, 20
         A(I) = 100*ME + I
         B(I) = 0
   20 CONTINUE
      CALL MPI_SENDRECV(A, 1, T, 1-ME, 1, B, 6, MPI_INTEGER, 1-ME, 1,
     &                  MPI_COMM_WORLD, MPI_STATUS_IGNORE, IERR)
      DO 30 I = 1, 3
         IF (B(2*I-1) .NE. 100*(1-ME) + D(I) + 1) STOP 1
         IF (B(2*I) .NE. 100*(1-ME) + D(I) + 2) STOP 2
         B(2*I-1) = 0
         B(2*I) = 0
   30 CONTINUE
      CALL MPI_SENDRECV(A, 1, T, 1-ME, 2, B, 1, U, 1-ME, 2,
     &                  MPI_COMM_WORLD, MPI_STATUS_IGNORE, IERR)
      DO 40 I = 1, 20
         IF (I .LE. 2 .OR. I .EQ. 8 .OR. I .EQ. 9 .OR. I .EQ. 16 .OR.
     &       I .EQ. 17) THEN
            IF (B(I) .NE. 100*(1-ME) + I) STOP 3
         ELSE
            IF (B(I) .NE. 0) STOP 4
         END IF
   40 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
